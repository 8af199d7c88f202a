// Executable graphs: flattening, lanes, launches and updates.
#include "graph_exec.h"

#include <algorithm>
#include <utility>

namespace sandbox::cudart {
namespace {

/// More parallel branches than this share lanes.
constexpr std::size_t kMostLanes = 64;

/// The end of a launch. Keeps the executable graph, and what it holds, alive until then.
class LaunchEndOperation final : public Operation {
 public:
  explicit LaunchEndOperation(std::shared_ptr<GraphExec> exec) : exec_(std::move(exec)) {}
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeEmpty; }
  cudaError_t execute(Device&) const override { return cudaSuccess; }

 private:
  std::shared_ptr<GraphExec> exec_;
};

}  // namespace

GraphExec::GraphExec(const Graph& graph, unsigned long long flags_)
    : flags(flags_), user_objects_(graph.user_objects) {
  std::vector<const GraphNode*> origins;
  flatten(graph, {}, nodes_, origins);
  for (std::size_t i = 0; i < nodes_.size(); ++i) index_[nodes_[i].origin] = i;
  assign_lanes();
}

GraphExec::~GraphExec() {
  for (const auto& stream : lanes_) {
    if (stream != nullptr) stream->close();
  }
}

/// A child graph becomes its nodes, entered after what it depends on, and a join in its own place.
void GraphExec::flatten(const Graph& graph, const std::vector<std::size_t>& before, Nodes& nodes,
                        std::vector<const GraphNode*>& origins) {
  std::unordered_map<const GraphNode*, std::size_t> place;
  for (const GraphNode* node : graph.sorted()) {
    std::vector<std::size_t> dependencies;
    for (const GraphNode* other : node->dependencies) dependencies.push_back(place[other]);
    if (dependencies.empty()) dependencies = before;
    OperationPtr operation = node->operation;
    if (const auto* child = dynamic_cast<const ChildGraphOperation*>(operation.get()); child != nullptr) {
      const std::size_t first = nodes.size();
      flatten(*child->child, dependencies, nodes, origins);
      for (std::size_t i = first; i < nodes.size(); ++i) dependencies.push_back(i);
      operation = std::make_shared<EmptyOperation>();
    }
    place[node] = nodes.size();
    nodes.push_back({node->id, std::move(operation), node->device, std::move(dependencies), 0, true});
    origins.push_back(node);
  }
}

/// A node follows in the lane of a dependency that nothing else has followed yet; else it opens a lane.
void GraphExec::assign_lanes() {
  std::vector<std::size_t> tails;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    std::size_t lane = tails.size();
    for (const std::size_t before : node.dependencies) {
      if (tails[nodes_[before].lane] == before) lane = std::min(lane, nodes_[before].lane);
    }
    if (lane == tails.size()) {
      if (tails.size() < kMostLanes) {
        tails.push_back(i);
      } else {
        lane = i % kMostLanes;
      }
    }
    node.lane = lane;
    tails[lane] = i;
  }
  lane_count_ = std::max<std::size_t>(1, tails.size());
}

Stream& GraphExec::lane(std::size_t index, Stream& launch_stream) {
  if (index == 0) return launch_stream;
  if (lanes_.size() < lane_count_) lanes_.resize(lane_count_);
  auto& stream = lanes_[index];
  if (stream == nullptr) {
    stream = std::make_shared<Stream>(launch_stream.device, Stream::Kind::internal, 0U, 0);
  }
  return *stream;
}

void GraphExec::launch(Stream& stream) {
  std::lock_guard lock(mutex_);
  Completions after;
  if (last_ != nullptr) after.push_back(last_);
  const auto start = stream.submit(std::make_shared<EmptyOperation>(), stream.device, std::move(after));
  Completions done(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    Completions before;
    if (node.lane != 0) before.push_back(start);
    for (const std::size_t other : node.dependencies) {
      if (nodes_[other].lane != node.lane) before.push_back(done[other]);
    }
    auto operation = node.enabled ? node.operation : std::make_shared<EmptyOperation>();
    done[i] = lane(node.lane, stream).submit(std::move(operation), *node.device, std::move(before));
  }
  std::erase_if(done, [](const auto& point) { return point->done(); });
  last_ =
      stream.submit(std::make_shared<LaunchEndOperation>(shared_from_this()), stream.device, std::move(done));
}

cudaGraphExecUpdateResult GraphExec::update(const Graph& graph, const GraphNode** culprit,
                                            std::vector<OperationPtr>& garbage,
                                            UserObjectReferences& released) {
  Nodes nodes;
  std::vector<const GraphNode*> origins;
  flatten(graph, {}, nodes, origins);
  std::lock_guard lock(mutex_);
  *culprit = nullptr;
  if (nodes.size() != nodes_.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    *culprit = origins[i];
    if (nodes[i].operation->type() != nodes_[i].operation->type())
      return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (nodes[i].dependencies != nodes_[i].dependencies) return cudaGraphExecUpdateErrorTopologyChanged;
    if (nodes[i].device != nodes_[i].device) return cudaGraphExecUpdateErrorParametersChanged;
  }
  *culprit = nullptr;
  // The launch in flight keeps its own references; the next one runs the new operations.
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    garbage.push_back(std::exchange(nodes_[i].operation, nodes[i].operation));
  }
  released = graph.user_objects;
  std::swap(user_objects_, released);
  return cudaGraphExecUpdateSuccess;
}

GraphExec::Node& GraphExec::node_of(const GraphNode* node) {
  const auto found = index_.find(node->id);
  require(found != index_.end());
  return nodes_[found->second];
}

void GraphExec::set_operation(const GraphNode* node, OperationPtr operation) {
  std::lock_guard lock(mutex_);
  Node& target = node_of(node);
  require(target.operation->type() == operation->type());
  target.operation = std::move(operation);
}

void GraphExec::set_enabled(const GraphNode* node, bool enabled) {
  std::lock_guard lock(mutex_);
  Node& target = node_of(node);
  const auto type = target.operation->type();
  require(type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
          type == cudaGraphNodeTypeMemset);
  target.enabled = enabled;
}

bool GraphExec::enabled(const GraphNode* node) {
  std::lock_guard lock(mutex_);
  return node_of(node).enabled;
}

}  // namespace sandbox::cudart

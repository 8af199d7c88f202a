// The structure of graphs: nodes, edges, copies of graphs, and their order.
#include "graph.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <unordered_map>

namespace sandbox::cudart {
namespace {

std::atomic<std::uint64_t> g_next_node{1};

}  // namespace

std::mutex& graph_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

HandleTable<Graph>& graph_table() {
  static auto& table = *new HandleTable<Graph>;
  return table;
}

HandleTable<GraphNode>& node_table() {
  static auto& table = *new HandleTable<GraphNode>;
  return table;
}

Graph::~Graph() {
  for (const auto& node : nodes) {
    if (node_table().find(node.get()) != nullptr) node_table().remove(node.get());
  }
}

GraphNode* Graph::add(OperationPtr operation, Device& device, std::span<GraphNode* const> dependencies) {
  auto node = std::make_shared<GraphNode>();
  node->graph = this;
  node->id = g_next_node.fetch_add(1);
  node->operation = std::move(operation);
  node->device = &device;
  node->dependencies.assign(dependencies.begin(), dependencies.end());
  node_table().insert(node);
  nodes.push_back(node);
  return node.get();
}

std::shared_ptr<GraphNode> Graph::remove(GraphNode* node) {
  const auto found =
      std::find_if(nodes.begin(), nodes.end(), [&](const auto& own) { return own.get() == node; });
  require(found != nodes.end());
  auto removed = *found;
  nodes.erase(found);
  for (const auto& other : nodes) std::erase(other->dependencies, node);
  node_table().remove(node);
  return removed;
}

std::shared_ptr<Graph> Graph::clone() const {
  auto copy = std::make_shared<Graph>();
  std::unordered_map<const GraphNode*, GraphNode*> twin;
  for (const auto& node : nodes) {
    OperationPtr operation = node->operation;
    if (const auto* embedded = dynamic_cast<const ChildGraphOperation*>(operation.get());
        embedded != nullptr) {
      operation = std::make_shared<ChildGraphOperation>(embedded->child->clone());
    }
    twin[node.get()] = copy->add(std::move(operation), *node->device, {});
    twin[node.get()]->cloned_from = node->id;
  }
  for (const auto& node : nodes) {
    for (const GraphNode* before : node->dependencies) twin[node.get()]->dependencies.push_back(twin[before]);
  }
  copy->user_objects = user_objects;
  return copy;
}

std::vector<GraphNode*> Graph::sorted() const {
  std::unordered_map<const GraphNode*, std::size_t> open;
  std::unordered_map<const GraphNode*, std::vector<GraphNode*>> after;
  std::deque<GraphNode*> ready;
  for (const auto& node : nodes) {
    open[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) ready.push_back(node.get());
    for (const GraphNode* before : node->dependencies) after[before].push_back(node.get());
  }
  std::vector<GraphNode*> order;
  while (!ready.empty()) {
    GraphNode* node = ready.front();
    ready.pop_front();
    order.push_back(node);
    for (GraphNode* next : after[node]) {
      if (--open[next] == 0) ready.push_back(next);
    }
  }
  require(order.size() == nodes.size());
  return order;
}

bool Graph::contains(const GraphNode* node) const {
  return node->graph == this;
}

ChildGraphOperation::ChildGraphOperation(std::shared_ptr<Graph> child_graph) : child(std::move(child_graph)) {
  graph_table().insert(child);
}

ChildGraphOperation::~ChildGraphOperation() {
  if (graph_table().find(child.get()) != nullptr) graph_table().remove(child.get());
}

GraphNode* resolve_node(cudaGraphNode_t handle) {
  return node_table().get(handle, cudaErrorInvalidValue).get();
}

std::vector<GraphNode*> resolve_nodes(const cudaGraphNode_t* handles, std::size_t count, const Graph* graph) {
  require(count == 0 || handles != nullptr);
  std::vector<GraphNode*> nodes;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = resolve_node(handles[i]);
    require(graph->contains(node) && std::find(nodes.begin(), nodes.end(), node) == nodes.end());
    nodes.push_back(node);
  }
  return nodes;
}

void require_plain_edges(const cudaGraphEdgeData* data, std::size_t count) {
  for (std::size_t i = 0; data != nullptr && i < count; ++i) {
    if (data[i].from_port != 0 || data[i].to_port != 0 || data[i].type != cudaGraphDependencyTypeDefault) {
      fail(cudaErrorNotSupported, "graph edges other than full dependencies are not implemented");
    }
  }
}

}  // namespace sandbox::cudart

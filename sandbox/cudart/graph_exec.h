// Executable graphs: the nodes of a graph spread over lanes, launched by submitting them to streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "graph.h"
#include "stream.h"

namespace sandbox::cudart {

class GraphExec : public std::enable_shared_from_this<GraphExec> {
 public:
  GraphExec(const Graph& graph, unsigned long long flags);
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;
  ~GraphExec();

  const unsigned long long flags;
  cudaGraphExec_t handle() { return reinterpret_cast<cudaGraphExec_t>(this); }

  /// Submits every node; returns without waiting. Launches of one executable graph never overlap.
  void launch(Stream& stream);
  /// Takes over what another graph of the same shape does. What was replaced goes into `garbage`: dropping it
  /// may call the program, so that must happen without locks.
  cudaGraphExecUpdateResult update(const Graph& graph, const GraphNode** culprit,
                                   std::vector<OperationPtr>& garbage, UserObjectReferences& released);
  /// Replaces what a node does, named by the node of the graph it was made from.
  void set_operation(const GraphNode* node, OperationPtr operation);
  void set_enabled(const GraphNode* node, bool enabled);
  bool enabled(const GraphNode* node);

 private:
  struct Node {
    std::uint64_t origin = 0;
    OperationPtr operation;
    Device* device = nullptr;
    std::vector<std::size_t> dependencies;
    std::size_t lane = 0;
    bool enabled = true;
  };
  using Nodes = std::vector<Node>;

  static void flatten(const Graph& graph, const std::vector<std::size_t>& before, Nodes& nodes,
                      std::vector<const GraphNode*>& origins);
  void assign_lanes();
  Node& node_of(const GraphNode* node);
  Stream& lane(std::size_t index, Stream& launch_stream);

  std::mutex mutex_;
  Nodes nodes_;
  std::unordered_map<std::uint64_t, std::size_t> index_;  // by the original node's id
  std::size_t lane_count_ = 1;
  std::vector<StreamPtr> lanes_;  // lane 0 is the stream of the launch
  CompletionPtr last_;
  UserObjectReferences user_objects_;
};

}  // namespace sandbox::cudart

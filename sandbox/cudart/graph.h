// Graphs: nodes that hold operations and the edges between them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device.h"
#include "handle_table.h"
#include "operation.h"
#include "user_object.h"

namespace sandbox::cudart {

class Graph;

struct GraphNode {
  Graph* graph = nullptr;
  std::uint64_t id = 0;
  OperationPtr operation;
  Device* device = nullptr;
  std::vector<GraphNode*> dependencies;
  std::uint64_t cloned_from = 0;  // the original's id, in a clone

  cudaGraphNode_t handle() { return reinterpret_cast<cudaGraphNode_t>(this); }
};

/// Guards the structure of all graphs and captures. Held for bookkeeping only, never while work or callbacks
/// run.
std::mutex& graph_mutex();

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  cudaGraph_t handle() { return reinterpret_cast<cudaGraph_t>(this); }

  GraphNode* add(OperationPtr operation, Device& device, std::span<GraphNode* const> dependencies);
  /// Removes a node and its edges; the caller drops the node after unlocking.
  std::shared_ptr<GraphNode> remove(GraphNode* node);
  std::shared_ptr<Graph> clone() const;
  /// Nodes so that each comes after what it depends on; fails on a cycle.
  std::vector<GraphNode*> sorted() const;
  bool contains(const GraphNode* node) const;

  std::vector<std::shared_ptr<GraphNode>> nodes;
  UserObjectReferences user_objects;
};

/// A node that executes an embedded graph.
class ChildGraphOperation final : public Operation {
 public:
  explicit ChildGraphOperation(std::shared_ptr<Graph> child_graph);
  ~ChildGraphOperation() override;
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeGraph; }
  cudaError_t execute(Device&) const override { return cudaSuccess; }  // expanded when instantiated
  const std::shared_ptr<Graph> child;
};

HandleTable<Graph>& graph_table();
HandleTable<GraphNode>& node_table();
/// The node behind a handle; throws cudaErrorInvalidValue.
GraphNode* resolve_node(cudaGraphNode_t handle);
std::vector<GraphNode*> resolve_nodes(const cudaGraphNode_t* handles, std::size_t count, const Graph* graph);

/// Edges with anything but full dependencies are refused.
void require_plain_edges(const cudaGraphEdgeData* data, std::size_t count);

}  // namespace sandbox::cudart

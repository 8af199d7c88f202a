// The functions of CUDA that build, copy and inspect the structure of graphs.
#include <algorithm>

#include "graph.h"

using namespace sandbox::cudart;

namespace {

std::shared_ptr<Graph> resolve_graph(cudaGraph_t graph) {
  return graph_table().get(graph, cudaErrorInvalidValue);
}

/// CUDA's way to return a list: with no room given, only its length; room beyond the end is nulled.
template <class Handle>
void give(const std::vector<GraphNode*>& nodes, Handle* out, std::size_t* count) {
  require(count != nullptr);
  if (out != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? nodes[i]->handle() : nullptr;
    *count = std::min(*count, nodes.size());
  } else {
    *count = nodes.size();
  }
}

void plain(cudaGraphEdgeData* data, std::size_t count) {
  for (std::size_t i = 0; data != nullptr && i < count; ++i) data[i] = {};
}

std::vector<GraphNode*> all_of(const Graph& graph, bool roots_only) {
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph.nodes) {
    if (!roots_only || node->dependencies.empty()) nodes.push_back(node.get());
  }
  return nodes;
}

}  // namespace

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* pGraph, unsigned int flags) {
  return entry([&] {
    enter();
    require(pGraph != nullptr && flags == 0);
    auto graph = std::make_shared<Graph>();
    *pGraph = graph->handle();
    graph_table().insert(std::move(graph));
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return entry([&] {
    enter_process();
    graph_table().remove(graph, cudaErrorInvalidValue);
  });
}

cudaError_t cudaGraphClone(cudaGraph_t* pGraphClone, cudaGraph_t originalGraph) {
  return entry([&] {
    enter();
    require(pGraphClone != nullptr);
    const auto original = resolve_graph(originalGraph);
    std::shared_ptr<Graph> copy;
    {
      std::lock_guard lock(graph_mutex());
      copy = original->clone();
    }
    *pGraphClone = copy->handle();
    graph_table().insert(std::move(copy));
  });
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* pNode, cudaGraphNode_t originalNode,
                                     cudaGraph_t clonedGraph) {
  return entry([&] {
    enter();
    require(pNode != nullptr);
    const auto clone = resolve_graph(clonedGraph);
    const GraphNode* original = resolve_node(originalNode);
    std::lock_guard lock(graph_mutex());
    for (const auto& node : clone->nodes) {
      if (node->cloned_from == original->id) {
        *pNode = node->handle();
        return;
      }
    }
    fail(cudaErrorInvalidValue);
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes) {
  return entry([&] {
    enter();
    const auto target = resolve_graph(graph);
    std::lock_guard lock(graph_mutex());
    give(all_of(*target, false), nodes, numNodes);
  });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* pRootNodes, size_t* pNumRootNodes) {
  return entry([&] {
    enter();
    const auto target = resolve_graph(graph);
    std::lock_guard lock(graph_mutex());
    give(all_of(*target, true), pRootNodes, pNumRootNodes);
  });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* edgeData, size_t* numEdges) {
  return entry([&] {
    enter();
    require(numEdges != nullptr && (from == nullptr) == (to == nullptr));
    const auto target = resolve_graph(graph);
    std::lock_guard lock(graph_mutex());
    std::vector<GraphNode*> sources, targets;
    for (const auto& node : target->nodes) {
      for (GraphNode* before : node->dependencies) {
        sources.push_back(before);
        targets.push_back(node.get());
      }
    }
    std::size_t count = *numEdges;
    give(sources, from, &count);
    give(targets, to, numEdges);
    plain(edgeData, from != nullptr ? *numEdges : 0);
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* pDependencies,
                                         cudaGraphEdgeData* edgeData, size_t* pNumDependencies) {
  return entry([&] {
    enter();
    const GraphNode* target = resolve_node(node);
    std::lock_guard lock(graph_mutex());
    give(target->dependencies, pDependencies, pNumDependencies);
    plain(edgeData, pDependencies != nullptr ? *pNumDependencies : 0);
  });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* pDependentNodes,
                                           cudaGraphEdgeData* edgeData, size_t* pNumDependentNodes) {
  return entry([&] {
    enter();
    GraphNode* target = resolve_node(node);
    std::lock_guard lock(graph_mutex());
    std::vector<GraphNode*> dependents;
    for (const auto& other : target->graph->nodes) {
      const auto& before = other->dependencies;
      if (std::find(before.begin(), before.end(), target) != before.end()) dependents.push_back(other.get());
    }
    give(dependents, pDependentNodes, pNumDependentNodes);
    plain(edgeData, pDependentNodes != nullptr ? *pNumDependentNodes : 0);
  });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
                                     size_t numDependencies) {
  return entry([&] {
    enter();
    require_plain_edges(edgeData, numDependencies);
    require(numDependencies == 0 || (from != nullptr && to != nullptr));
    const auto target = resolve_graph(graph);
    for (std::size_t i = 0; i < numDependencies; ++i) {
      GraphNode* first = resolve_node(from[i]);
      GraphNode* second = resolve_node(to[i]);
      require(target->contains(first) && target->contains(second) && first != second);
      std::lock_guard lock(graph_mutex());
      auto& before = second->dependencies;
      require(std::find(before.begin(), before.end(), first) == before.end());
      before.push_back(first);
    }
  });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
                                        size_t numDependencies) {
  return entry([&] {
    enter();
    require_plain_edges(edgeData, numDependencies);
    require(numDependencies == 0 || (from != nullptr && to != nullptr));
    const auto target = resolve_graph(graph);
    for (std::size_t i = 0; i < numDependencies; ++i) {
      GraphNode* first = resolve_node(from[i]);
      GraphNode* second = resolve_node(to[i]);
      require(target->contains(first) && target->contains(second));
      std::lock_guard lock(graph_mutex());
      require(std::erase(second->dependencies, first) == 1);
    }
  });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return entry([&] {
    enter();
    GraphNode* target = resolve_node(node);
    std::shared_ptr<GraphNode> removed;  // what it holds goes after the lock
    std::lock_guard lock(graph_mutex());
    removed = target->graph->remove(target);
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* pType) {
  return entry([&] {
    enter();
    require(pType != nullptr);
    const GraphNode* target = resolve_node(node);
    std::lock_guard lock(graph_mutex());
    *pType = target->operation->type();
  });
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* pGraph) {
  return entry([&] {
    enter();
    require(pGraph != nullptr);
    const GraphNode* target = resolve_node(node);
    std::lock_guard lock(graph_mutex());
    const auto* child = dynamic_cast<const ChildGraphOperation*>(target->operation.get());
    require(child != nullptr);
    *pGraph = child->child->handle();
  });
}

}  // extern "C"

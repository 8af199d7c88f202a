// The functions of CUDA that make, launch and change executable graphs.
#include "capture.h"
#include "copy.h"
#include "graph_exec.h"
#include "graph_nodes.h"

using namespace sandbox::cudart;

namespace {

constexpr unsigned long long kKnownFlags = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                           cudaGraphInstantiateFlagUpload |
                                           cudaGraphInstantiateFlagUseNodePriority;

HandleTable<GraphExec>& table() {
  static auto& instance = *new HandleTable<GraphExec>;
  return instance;
}

std::shared_ptr<GraphExec> resolve(cudaGraphExec_t exec) {
  return table().get(exec, cudaErrorInvalidValue);
}

void instantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  enter();
  require(out != nullptr);
  if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0) {
    fail(cudaErrorNotSupported, "graphs launched by kernels are not implemented");
  }
  require((flags & ~kKnownFlags) == 0);
  const auto source = graph_table().get(graph, cudaErrorInvalidValue);
  std::shared_ptr<GraphExec> exec;
  {
    std::lock_guard lock(graph_mutex());
    exec = std::make_shared<GraphExec>(*source, flags);
  }
  *out = exec->handle();
  table().insert(std::move(exec));
}

template <class Make>
cudaError_t change(cudaGraphExec_t exec, cudaGraphNode_t node, Make&& make) {
  return entry([&] {
    enter();
    resolve(exec)->set_operation(resolve_node(node), make());
  });
}

}  // namespace

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph, unsigned long long flags) {
  return entry([&] { instantiate(pGraphExec, graph, flags); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return entry([&] { instantiate(pGraphExec, graph, flags); });
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* instantiateParams) {
  return entry([&] {
    require(instantiateParams != nullptr);
    instantiateParams->errNode_out = nullptr;
    instantiateParams->result_out = cudaGraphInstantiateError;
    instantiate(pGraphExec, graph, instantiateParams->flags);
    instantiateParams->result_out = cudaGraphInstantiateSuccess;
  });
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long* flags) {
  return entry([&] {
    enter();
    require(flags != nullptr);
    *flags = resolve(graphExec)->flags;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    (void)resolve(graphExec);
    enqueue_now(*target, std::make_shared<EmptyOperation>());
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    const auto exec = resolve(graphExec);
    target->device.check();
    refuse_capture_of(*target);
    exec->launch(*target);
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return entry([&] {
    enter_process();
    table().remove(graphExec, cudaErrorInvalidValue);
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo* resultInfo) {
  return entry([&] {
    enter();
    const auto exec = resolve(hGraphExec);
    const auto graph = graph_table().get(hGraph, cudaErrorInvalidValue);
    const GraphNode* culprit = nullptr;
    std::vector<OperationPtr> garbage;
    UserObjectReferences released;
    std::unique_lock lock(graph_mutex());
    const auto result = exec->update(*graph, &culprit, garbage, released);
    lock.unlock();
    if (resultInfo != nullptr) {
      *resultInfo = {result, culprit != nullptr ? const_cast<GraphNode*>(culprit)->handle() : nullptr,
                     nullptr};
    }
    if (result != cudaGraphExecUpdateSuccess) fail(cudaErrorGraphExecUpdateFailure);
  });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* nodeParams) {
  return change(graphExec, node, [&] {
    if (nodeParams != nullptr && nodeParams->type == cudaGraphNodeTypeGraph) {
      fail(cudaErrorNotSupported, "child graphs of an executable graph cannot be replaced");
    }
    return any_node(nodeParams);
  });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* pNodeParams) {
  return change(hGraphExec, node, [&] { return kernel_node(pNodeParams); });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* pNodeParams) {
  return change(hGraphExec, node, [&] { return copy_node(pNodeParams); });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void* dst,
                                               const void* src, size_t count, cudaMemcpyKind kind) {
  return change(hGraphExec, node, [&] { return copy_node(dst, src, count, kind); });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaMemsetParams* pNodeParams) {
  return change(hGraphExec, node, [&] { return fill_node(pNodeParams); });
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* pNodeParams) {
  return change(hGraphExec, node, [&] { return host_node(pNodeParams); });
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                 cudaEvent_t event) {
  return change(hGraphExec, hNode, [&] { return event_record_node(event); });
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                               cudaEvent_t event) {
  return change(hGraphExec, hNode, [&] { return event_wait_node(event); });
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int isEnabled) {
  return entry([&] {
    enter();
    resolve(hGraphExec)->set_enabled(resolve_node(hNode), isEnabled != 0);
  });
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int* isEnabled) {
  return entry([&] {
    enter();
    require(isEnabled != nullptr);
    *isEnabled = resolve(hGraphExec)->enabled(resolve_node(hNode)) ? 1 : 0;
  });
}

}  // extern "C"

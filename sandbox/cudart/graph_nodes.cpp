// The functions of CUDA that add nodes to graphs and read or change what they do.
#include "graph_nodes.h"

#include "copy.h"
#include "copy_api.h"
#include "event.h"
#include "graph.h"
#include "host_function.h"
#include "launch.h"

namespace sandbox::cudart {

OperationPtr kernel_node(void* function, const dim3& grid, const dim3& block, unsigned shared_bytes,
                         void** parameters, void** extra) {
  if (extra != nullptr) fail(cudaErrorNotSupported, "kernel nodes with packed arguments are not implemented");
  return make_kernel_operation(resolve_kernel(function), {grid, block, shared_bytes}, parameters);
}

OperationPtr kernel_node(const cudaKernelNodeParams* p) {
  require(p != nullptr);
  return kernel_node(p->func, p->gridDim, p->blockDim, p->sharedMemBytes, p->kernelParams, p->extra);
}

OperationPtr copy_node(const cudaMemcpy3DParms* parameters) {
  require(parameters != nullptr);
  const CopyRequest request = from_3d(*parameters);
  require(!request.box.empty());
  validate(request, enter(), "memory copy node");
  return std::make_shared<CopyOperation>(request, "memory copy node");
}

OperationPtr copy_node(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  const auto request = CopyRequest::linear(destination, source, bytes, kind);
  require(bytes > 0);
  validate(request, enter(), "memory copy node");
  return std::make_shared<CopyOperation>(request, "memory copy node");
}

OperationPtr fill_node(const cudaMemsetParams* p) {
  require(p != nullptr && (p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4));
  require(p->width > 0 && p->height > 0);
  const std::size_t row_bytes = p->width * p->elementSize;
  const std::size_t pitch = p->height == 1 ? row_bytes : p->pitch;
  const FillRequest request{.destination = p->dst,
                            .pitch = {pitch, pitch * p->height},
                            .box = {row_bytes, p->height, 1},
                            .value = p->elementSize == 1 ? static_cast<unsigned char>(p->value) : p->value,
                            .element_bytes = p->elementSize};
  validate(request, enter(), "memory set node");
  return std::make_shared<FillOperation>(request, "memory set node");
}

OperationPtr host_node(const cudaHostNodeParams* p) {
  require(p != nullptr && p->fn != nullptr);
  return std::make_shared<HostFunctionOperation>(p->fn, p->userData);
}

OperationPtr event_record_node(cudaEvent_t event) {
  return std::make_shared<EventRecordOperation>(event_table().get(event));
}

OperationPtr event_wait_node(cudaEvent_t event) {
  return std::make_shared<EventWaitOperation>(event_table().get(event));
}

OperationPtr child_node(cudaGraph_t graph) {
  const auto original = graph_table().get(graph, cudaErrorInvalidValue);
  std::lock_guard lock(graph_mutex());
  return std::make_shared<ChildGraphOperation>(original->clone());
}

OperationPtr any_node(const cudaGraphNodeParams* p) {
  require(p != nullptr);
  switch (p->type) {
    case cudaGraphNodeTypeKernel: {
      const auto& k = p->kernel;
      return kernel_node(k.func, k.gridDim, k.blockDim, k.sharedMemBytes, k.kernelParams, k.extra);
    }
    case cudaGraphNodeTypeMemcpy:
      return copy_node(&p->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
      const cudaMemsetParams same{p->memset.dst,         p->memset.pitch, p->memset.value,
                                  p->memset.elementSize, p->memset.width, p->memset.height};
      return fill_node(&same);
    }
    case cudaGraphNodeTypeHost: {
      const cudaHostNodeParams same{p->host.fn, p->host.userData};
      return host_node(&same);
    }
    case cudaGraphNodeTypeGraph:
      return child_node(p->graph.graph);
    case cudaGraphNodeTypeEmpty:
      return std::make_shared<EmptyOperation>();
    case cudaGraphNodeTypeWaitEvent:
      return event_wait_node(p->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
      return event_record_node(p->eventRecord.event);
    default:
      fail(cudaErrorNotSupported, "graph nodes of type %d are not implemented", static_cast<int>(p->type));
  }
}

namespace {

/// Adds a node that belongs to the current device. `make` runs first: it checks the parameters.
template <class Make>
cudaError_t add(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                std::size_t count, Make&& make) {
  return entry([&] {
    Device& device = enter();
    require(out != nullptr);
    const auto target = graph_table().get(graph, cudaErrorInvalidValue);
    const auto before = resolve_nodes(dependencies, count, target.get());
    OperationPtr operation = make();
    std::lock_guard lock(graph_mutex());
    *out = target->add(std::move(operation), device, before)->handle();
  });
}

/// Replaces what a node does by something of the same kind.
template <class Make>
cudaError_t change(cudaGraphNode_t node, Make&& make) {
  return entry([&] {
    enter();
    GraphNode* target = resolve_node(node);
    OperationPtr operation = make();
    std::lock_guard lock(graph_mutex());
    require(target->operation->type() == operation->type());
    std::swap(target->operation, operation);
  });
}

/// The node's operation as the expected kind.
template <class Kind>
std::shared_ptr<const Kind> read(cudaGraphNode_t node) {
  enter();
  const GraphNode* target = resolve_node(node);
  std::lock_guard lock(graph_mutex());
  auto operation = std::dynamic_pointer_cast<const Kind>(target->operation);
  require(operation != nullptr);
  return operation;
}

cudaEvent_t handle_of(const EventPtr& event) {
  return reinterpret_cast<cudaEvent_t>(event.get());
}

}  // namespace
}  // namespace sandbox::cudart

using namespace sandbox::cudart;

extern "C" {

cudaError_t cudaGraphAddNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                             const cudaGraphNode_t* pDependencies, const cudaGraphEdgeData* dependencyData,
                             size_t numDependencies, cudaGraphNodeParams* nodeParams) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] {
    require_plain_edges(dependencyData, numDependencies);
    return any_node(nodeParams);
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* nodeParams) {
  return change(node, [&] { return any_node(nodeParams); });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                  const cudaGraphNode_t* pDependencies, size_t numDependencies) {
  return add(pGraphNode, graph, pDependencies, numDependencies,
             [] { return std::make_shared<EmptyOperation>(); });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaKernelNodeParams* pNodeParams) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] { return kernel_node(pNodeParams); });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* pNodeParams) {
  return change(node, [&] { return kernel_node(pNodeParams); });
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaMemcpy3DParms* pCopyParams) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] { return copy_node(pCopyParams); });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t* pDependencies, size_t numDependencies, void* dst,
                                     const void* src, size_t count, cudaMemcpyKind kind) {
  return add(pGraphNode, graph, pDependencies, numDependencies,
             [&] { return copy_node(dst, src, count, kind); });
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                           const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                           const void* symbol, const void* src, size_t count, size_t offset,
                                           cudaMemcpyKind kind) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] {
    const auto request = to_symbol(symbol, src, count, offset, kind);
    return copy_node(request.destination, request.source, count, kind);
  });
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                             const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                             void* dst, const void* symbol, size_t count, size_t offset,
                                             cudaMemcpyKind kind) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] {
    const auto request = from_symbol(dst, symbol, count, offset, kind);
    return copy_node(request.destination, request.source, count, kind);
  });
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* pNodeParams) {
  return entry([&] {
    require(pNodeParams != nullptr);
    const auto& r = read<CopyOperation>(node)->request;
    *pNodeParams = {};
    const auto rows = [](const Pitch& pitch) { return pitch.row == 0 ? 0 : pitch.slice / pitch.row; };
    pNodeParams->srcPtr = {const_cast<void*>(r.source), r.source_pitch.row, r.box.width,
                           rows(r.source_pitch)};
    pNodeParams->dstPtr = {r.destination, r.destination_pitch.row, r.box.width, rows(r.destination_pitch)};
    pNodeParams->extent = {r.box.width, r.box.height, r.box.depth};
    pNodeParams->kind = r.kind;
  });
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* pNodeParams) {
  return change(node, [&] { return copy_node(pNodeParams); });
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst, const void* src, size_t count,
                                           cudaMemcpyKind kind) {
  return change(node, [&] { return copy_node(dst, src, count, kind); });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaMemsetParams* pMemsetParams) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] { return fill_node(pMemsetParams); });
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* pNodeParams) {
  return entry([&] {
    require(pNodeParams != nullptr);
    const auto& r = read<FillOperation>(node)->request;
    *pNodeParams = {r.destination, r.pitch.row, r.value, r.element_bytes, r.box.width / r.element_bytes,
                    r.box.height};
  });
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* pNodeParams) {
  return change(node, [&] { return fill_node(pNodeParams); });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                 const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                 const cudaHostNodeParams* pNodeParams) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] { return host_node(pNodeParams); });
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* pNodeParams) {
  return entry([&] {
    require(pNodeParams != nullptr);
    const auto operation = read<HostFunctionOperation>(node);
    *pNodeParams = {operation->function, operation->argument};
  });
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* pNodeParams) {
  return change(node, [&] { return host_node(pNodeParams); });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                       cudaGraph_t childGraph) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] { return child_node(childGraph); });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                        const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                        cudaEvent_t event) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] { return event_record_node(event); });
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event_out) {
  return entry([&] {
    require(event_out != nullptr);
    *event_out = handle_of(read<EventRecordOperation>(node)->event);
  });
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return change(node, [&] { return event_record_node(event); });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                      cudaEvent_t event) {
  return add(pGraphNode, graph, pDependencies, numDependencies, [&] { return event_wait_node(event); });
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event_out) {
  return entry([&] {
    require(event_out != nullptr);
    *event_out = handle_of(read<EventWaitOperation>(node)->event);
  });
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return change(node, [&] { return event_wait_node(event); });
}

}  // extern "C"

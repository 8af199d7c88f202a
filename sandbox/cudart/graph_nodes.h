// Node parameters of CUDA as operations; shared by graphs and executable graphs.
#pragma once

#include <cuda_runtime_api.h>

#include "operation.h"

namespace sandbox::cudart {

OperationPtr kernel_node(void* function, const dim3& grid, const dim3& block, unsigned shared_bytes,
                         void** parameters, void** extra);
OperationPtr kernel_node(const cudaKernelNodeParams* parameters);
OperationPtr copy_node(const cudaMemcpy3DParms* parameters);
OperationPtr copy_node(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind);
OperationPtr fill_node(const cudaMemsetParams* parameters);
OperationPtr host_node(const cudaHostNodeParams* parameters);
OperationPtr event_record_node(cudaEvent_t event);
OperationPtr event_wait_node(cudaEvent_t event);
OperationPtr child_node(cudaGraph_t graph);
/// Any of them.
OperationPtr any_node(const cudaGraphNodeParams* parameters);

}  // namespace sandbox::cudart

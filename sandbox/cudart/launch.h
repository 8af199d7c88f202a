// Kernel launches: what is checked at the call, and the operation that runs the kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "operation.h"
#include "registry.h"
#include "stream.h"

namespace sandbox::cudart {

inline constexpr int kMultiprocessors = 132;
inline constexpr int kMaxThreadsPerBlock = 1024;
inline constexpr int kMaxThreadsPerMultiprocessor = 2048;
inline constexpr int kMaxBlocksPerMultiprocessor = 32;
inline constexpr int kRegistersPerMultiprocessor = 65536;
inline constexpr std::size_t kSharedBytesPerBlock = 48 * 1024;
inline constexpr std::size_t kSharedBytesPerBlockOptIn = 227 * 1024;
inline constexpr std::size_t kSharedBytesPerMultiprocessor = 228 * 1024;
inline constexpr std::size_t kReservedSharedBytesPerBlock = 1024;

struct LaunchRequest {
  dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  dim3 cluster{1, 1, 1};
  bool cooperative = false;
};

class KernelOperation final : public Operation {
 public:
  KernelOperation(KernelEntry& entry_, const LaunchRequest& request_, std::vector<std::byte> arguments_)
      : entry(entry_), request(request_), arguments(std::move(arguments_)) {}
  ~KernelOperation() override;
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeKernel; }
  cudaError_t execute(Device& device) const override;

  KernelEntry& entry;
  const LaunchRequest request;
  std::vector<std::byte> arguments;
};

/// Checks the configuration and copies the arguments; throws the code CUDA gives.
std::shared_ptr<KernelOperation> make_kernel_operation(KernelEntry& entry, const LaunchRequest& request,
                                                       void* const* arguments);
void launch(const void* function, const LaunchRequest& request, void* const* arguments, cudaStream_t stream);

/// Blocks of this kernel that fit one multiprocessor at once.
int resident_blocks(KernelEntry& entry, int block_threads, std::size_t dynamic_shared_bytes);

}  // namespace sandbox::cudart

// Kernel launches: configuration checks, the call-configuration stack, and the launch functions.
#include "launch.h"

#include <algorithm>
#include <mutex>
#include <string>

namespace sandbox::cudart {
namespace {

struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<CallConfiguration> t_configurations;

std::size_t volume(const dim3& extent) {
  return static_cast<std::size_t>(extent.x) * extent.y * extent.z;
}

ptx::Dim3 convert(const dim3& extent) {
  return {extent.x, extent.y, extent.z};
}

ptx::Launch convert(const LaunchRequest& request) {
  ptx::Launch launch;
  launch.grid = convert(request.grid);
  launch.block = convert(request.block);
  launch.cluster = convert(request.cluster);
  launch.dynamic_shared_bytes = request.dynamic_shared_bytes;
  launch.cooperative = request.cooperative;
  return launch;
}

void validate(KernelEntry& entry, const LaunchRequest& request) {
  const auto& [grid, block, shared_bytes, cluster, cooperative] = request;
  const bool grid_fits = volume(grid) > 0 && grid.x <= 0x7fffffffU && grid.y <= 65535 && grid.z <= 65535;
  const bool block_fits = volume(block) > 0 && volume(block) <= kMaxThreadsPerBlock && block.x <= 1024 &&
                          block.y <= 1024 && block.z <= 64;
  if (!grid_fits || !block_fits) fail(cudaErrorInvalidConfiguration);
  const auto& attributes = entry.attributes();
  if (volume(block) > static_cast<std::size_t>(attributes.max_threads_per_block))
    fail(cudaErrorLaunchOutOfResources);
  const int opted_in = entry.max_dynamic_shared_bytes.load();
  const std::size_t dynamic_limit =
      opted_in >= 0 ? static_cast<std::size_t>(opted_in)
                    : kSharedBytesPerBlock - std::min(kSharedBytesPerBlock, attributes.static_shared_bytes);
  if (shared_bytes > dynamic_limit) fail(cudaErrorInvalidValue);
  if (volume(cluster) == 0 || volume(cluster) > 8) fail(cudaErrorInvalidClusterSize);
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0)
    fail(cudaErrorInvalidConfiguration);
  if (cooperative) {
    const int resident = resident_blocks(entry, static_cast<int>(volume(block)), shared_bytes);
    if (volume(grid) > static_cast<std::size_t>(resident) * kMultiprocessors)
      fail(cudaErrorCooperativeLaunchTooLarge);
  }
  // What cannot run is refused here, where CUDA would fail to load it: an error of the call, which does not
  // stay.
  if (const auto refused = ptx::refusal(entry.kernel(), convert(request)))
    fail(code_of(*refused), "%s", refused->message.c_str());
}

LaunchRequest from_config(const cudaLaunchConfig_t& config) {
  LaunchRequest request{config.gridDim, config.blockDim, config.dynamicSmemBytes, dim3(1, 1, 1), false};
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeCooperative:
        request.cooperative = attribute.val.cooperative != 0;
        break;
      case cudaLaunchAttributeClusterDimension:
        request.cluster =
            dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
        break;
      // Hints: where work is placed, or that it may begin earlier than it has to.
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeSynchronizationPolicy:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributeProgrammaticStreamSerialization:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeMemSyncDomainMap:
      case cudaLaunchAttributeMemSyncDomain:
      case cudaLaunchAttributePreferredClusterDimension:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
        break;
      default:
        fail(cudaErrorNotSupported, "launch attribute %d is not implemented", static_cast<int>(attribute.id));
    }
  }
  return request;
}

/// Memory for arguments that were used before: drivers do not allocate for a launch, and a call that does
/// costs the thread the more the larger its arguments are.
class ArgumentMemory {
 public:
  ArgumentMemory() { idle_.reserve(kKept); }
  std::vector<std::byte> take() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return {};
    std::vector<std::byte> buffer = std::move(idle_.back());
    idle_.pop_back();
    return buffer;
  }
  void give_back(std::vector<std::byte> buffer) noexcept {
    std::lock_guard lock(mutex_);
    if (idle_.size() < kKept) idle_.push_back(std::move(buffer));
  }

 private:
  static constexpr std::size_t kKept = 256;
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> idle_;
};

ArgumentMemory& argument_memory() {
  static auto& memory = *new ArgumentMemory;
  return memory;
}

}  // namespace

KernelOperation::~KernelOperation() {
  argument_memory().give_back(std::move(arguments));
}

cudaError_t KernelOperation::execute(Device& device) const {
  ptx::Launch launch = convert(request);
  launch.device = device.index;
  launch.arguments = arguments;
  launch.cancel = &device.cancel;
  const auto fault = ptx::run(entry.kernel(), launch);
  if (!fault.has_value()) return cudaSuccess;
  if (device.cancel.load()) return cudaErrorCudartUnloading;
  if (device.sticky() == cudaSuccess) say("device %d: %s", device.index, fault->message.c_str());
  return code_of(*fault);
}

std::shared_ptr<KernelOperation> make_kernel_operation(KernelEntry& entry, const LaunchRequest& request,
                                                       void* const* arguments) {
  validate(entry, request);
  return std::make_shared<KernelOperation>(
      entry, request, ptx::pack_arguments(entry.kernel(), arguments, argument_memory().take()));
}

void launch(const void* function, const LaunchRequest& request, void* const* arguments, cudaStream_t stream) {
  Device& device = enter();
  const auto target = resolve_stream(stream, device);
  if (&target->device != &device) fail(cudaErrorInvalidResourceHandle);
  enqueue(*target, make_kernel_operation(resolve_kernel(function), request, arguments));
}

int resident_blocks(KernelEntry& entry, int block_threads, std::size_t dynamic_shared_bytes) {
  const auto& attributes = entry.attributes();
  require(block_threads > 0);
  if (block_threads > attributes.max_threads_per_block) return 0;
  const int warps = (block_threads + 31) / 32;
  int blocks = std::min(kMaxBlocksPerMultiprocessor, kMaxThreadsPerMultiprocessor / (warps * 32));
  // Registers are given to warps in steps of 256.
  const int registers_per_warp = (std::max(attributes.registers, 16) * 32 + 255) / 256 * 256;
  blocks = std::min(blocks, kRegistersPerMultiprocessor / (registers_per_warp * warps));
  const std::size_t shared =
      attributes.static_shared_bytes + dynamic_shared_bytes + kReservedSharedBytesPerBlock;
  return std::min(blocks, static_cast<int>(kSharedBytesPerMultiprocessor / shared));
}

}  // namespace sandbox::cudart

using namespace sandbox::cudart;

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem, void* stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                               size_t sharedMem, cudaStream_t stream);

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, cudaStream_t stream) {
  t_configurations.push_back({gridDim, blockDim, sharedMem, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem, void* stream) {
  return entry([&] {
    if (t_configurations.empty()) fail(cudaErrorMissingConfiguration);
    const CallConfiguration top = t_configurations.back();
    t_configurations.pop_back();
    *gridDim = top.grid;
    *blockDim = top.block;
    *sharedMem = top.shared_bytes;
    *static_cast<cudaStream_t*>(stream) = top.stream;
  });
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                               size_t sharedMem, cudaStream_t stream) {
  return entry([&] { launch(kernel, {gridDim, blockDim, sharedMem}, args, stream); });
}

cudaError_t cudaLaunchKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                             cudaStream_t stream) {
  return entry([&] { launch(func, {gridDim, blockDim, sharedMem}, args, stream); });
}

cudaError_t cudaLaunchCooperativeKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args,
                                        size_t sharedMem, cudaStream_t stream) {
  return entry([&] { launch(func, {gridDim, blockDim, sharedMem, dim3(1, 1, 1), true}, args, stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func, void** args) {
  return entry([&] {
    require(config != nullptr);
    launch(func, from_config(*config), args, config->stream);
  });
}

}  // extern "C"

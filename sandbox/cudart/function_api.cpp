// What programs ask and set about kernels: attributes, occupancy, clusters.
#include <algorithm>

#include "device.h"
#include "launch.h"
#include "registry.h"

using namespace sandbox::cudart;

namespace {

std::size_t dynamic_limit(const sandbox::ptx::KernelAttributes& attributes) {
  return kSharedBytesPerBlockOptIn - std::min(kSharedBytesPerBlockOptIn, attributes.static_shared_bytes);
}

KernelEntry& resolve(const void* function) {
  enter();
  return resolve_kernel(function);
}

int cluster_volume(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension) {
      const auto& cluster = config.attrs[i].val.clusterDim;
      return static_cast<int>(cluster.x * cluster.y * cluster.z);
    }
  }
  return 1;
}

}  // namespace

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  return entry([&] {
    require(attr != nullptr);
    KernelEntry& kernel = resolve(func);
    const auto& known = kernel.attributes();
    *attr = {};
    attr->sharedSizeBytes = known.static_shared_bytes;
    attr->constSizeBytes = known.constant_bytes;
    attr->localSizeBytes = known.local_bytes;
    attr->maxThreadsPerBlock = known.max_threads_per_block;
    attr->numRegs = known.registers;
    attr->ptxVersion = known.ptx_version;
    attr->binaryVersion = 90;
    const int opted_in = kernel.max_dynamic_shared_bytes.load();
    attr->maxDynamicSharedSizeBytes =
        opted_in >= 0 ? opted_in
                      : static_cast<int>(kSharedBytesPerBlock -
                                         std::min(kSharedBytesPerBlock, known.static_shared_bytes));
    attr->preferredShmemCarveout = kernel.carveout.load();
    attr->nonPortableClusterSizeAllowed = kernel.non_portable_cluster.load() ? 1 : 0;
  });
}

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  return entry([&] {
    KernelEntry& kernel = resolve(func);
    switch (attr) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        require(value >= 0 && static_cast<std::size_t>(value) <= dynamic_limit(kernel.attributes()));
        kernel.max_dynamic_shared_bytes.store(value);
        break;
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        require(value >= -1 && value <= 100);
        kernel.carveout.store(value);
        break;
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        kernel.non_portable_cluster.store(value != 0);
        break;
      default:
        fail(cudaErrorNotSupported, "function attribute %d is not implemented", static_cast<int>(attr));
    }
  });
}

cudaError_t cudaFuncSetCacheConfig(const void* func, cudaFuncCache) {
  return entry([&] { (void)resolve(func); });
}

cudaError_t cudaFuncGetName(const char** name, const void* func) {
  return entry([&] {
    require(name != nullptr);
    *name = resolve(func).name().c_str();
  });
}

cudaError_t cudaFuncGetParamInfo(const void* func, size_t paramIndex, size_t* paramOffset,
                                 size_t* paramSize) {
  return entry([&] {
    require(paramOffset != nullptr);
    const auto place = sandbox::ptx::parameter_place(resolve(func).kernel(), paramIndex);
    require(place.has_value());
    *paramOffset = place->offset;
    if (paramSize != nullptr) *paramSize = place->bytes;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func, int blockSize,
                                                          size_t dynamicSMemSize) {
  return entry([&] {
    require(numBlocks != nullptr);
    *numBlocks = resident_blocks(resolve(func), blockSize, dynamicSMemSize);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, const void* func,
                                                                   int blockSize, size_t dynamicSMemSize,
                                                                   unsigned int flags) {
  return entry([&] {
    require(numBlocks != nullptr &&
            (flags & ~static_cast<unsigned>(cudaOccupancyDisableCachingOverride)) == 0);
    *numBlocks = resident_blocks(resolve(func), blockSize, dynamicSMemSize);
  });
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, const void* func,
                                                      int numBlocks, int blockSize) {
  return entry([&] {
    require(dynamicSmemSize != nullptr && numBlocks > 0 && blockSize > 0);
    const auto& attributes = resolve(func).attributes();
    const std::size_t each = kSharedBytesPerMultiprocessor / static_cast<std::size_t>(numBlocks);
    const std::size_t taken = attributes.static_shared_bytes + kReservedSharedBytesPerBlock;
    *dynamicSmemSize = each > taken ? std::min(each - taken, dynamic_limit(attributes)) : 0;
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* clusterSize, const void* func,
                                                 const cudaLaunchConfig_t* config) {
  return entry([&] {
    require(clusterSize != nullptr && config != nullptr);
    (void)resolve(func);
    *clusterSize = 8;
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* numClusters, const void* func,
                                           const cudaLaunchConfig_t* config) {
  return entry([&] {
    require(numClusters != nullptr && config != nullptr);
    const dim3& block = config->blockDim;
    const int resident = resident_blocks(resolve(func), static_cast<int>(block.x * block.y * block.z),
                                         config->dynamicSmemBytes);
    *numClusters = resident * kMultiprocessors / std::max(1, cluster_volume(*config));
  });
}

}  // extern "C"

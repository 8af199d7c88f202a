// Loading kernels before they are needed: CUDA loads a kernel at its first launch, and while collectives run,
// that may wait for them. Each file of kernels has one function here; load_kernels() of launch.h calls them
// all.
#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>

#include "kernels/dispatch.h"

namespace sdp4bit {

cudaError_t load_difference();
cudaError_t load_health();
cudaError_t load_ledger();
cudaError_t load_probe();
cudaError_t load_quantize();
cudaError_t load_reduce_finish();
cudaError_t load_reduce_requantize();
cudaError_t load_sample();

/// Loads kernels on the current device, and remembers the first error.
class KernelLoader {
 public:
  /// Asking for a kernel's attributes loads it.
  template <typename Kernel>
  void load(Kernel* kernel) {
    cudaFuncAttributes attributes;
    if (error_ == cudaSuccess) error_ = cudaFuncGetAttributes(&attributes, kernel);
  }
  [[nodiscard]] cudaError_t error() const { return error_; }

 private:
  cudaError_t error_ = cudaSuccess;
};

/// load.operator()<T>() for all types.
template <typename Load>
void for_each_type(Load&& load) {
  for (const ElementType type : {ElementType::float32, ElementType::float16, ElementType::bfloat16}) {
    (void)with_type(type, [&]<typename T>() {
      load.template operator()<T>();
      return cudaSuccess;
    });
  }
}

/// load.operator()<true>() and <false>().
template <typename Load>
void for_both(Load&& load) {
  load.template operator()<true>();
  load.template operator()<false>();
}

/// load.operator()<4>() and <8>().
template <typename Load>
void for_each_width(Load&& load) {
  load.template operator()<4>();
  load.template operator()<8>();
}

}  // namespace sdp4bit

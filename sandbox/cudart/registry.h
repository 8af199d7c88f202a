// The program's fatbins, kernels and variables, as its static constructors registered them.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "sandbox/ptx/machine.h"

namespace sandbox::cudart {

/// A kernel known by name; found in its module at first use. Its address is the kernel's handle.
class KernelEntry {
 public:
  KernelEntry(std::shared_ptr<ptx::Module> module, std::string name, const void* host_function)
      : module_(std::move(module)), name_(std::move(name)), host_function_(host_function) {}

  const std::string& name() const { return name_; }
  const void* host_function() const { return host_function_; }
  /// Throws Failure: no image for the device, invalid PTX, no such kernel.
  ptx::Kernel& kernel();
  const ptx::KernelAttributes& attributes();

  /// Set by cudaFuncSetAttribute; -1: not set.
  std::atomic<int> max_dynamic_shared_bytes{-1};
  std::atomic<int> carveout{-1};
  std::atomic<bool> non_portable_cluster{false};

 private:
  std::mutex mutex_;
  const std::shared_ptr<ptx::Module> module_;
  const std::string name_;
  const void* const host_function_;
  ptx::Kernel* kernel_ = nullptr;
  ptx::KernelAttributes attributes_;
};

/// The kernel of a host stub or of a kernel handle; throws cudaErrorInvalidDeviceFunction.
KernelEntry& resolve_kernel(const void* function);
/// Kernels loaded by the library functions get handles too.
KernelEntry& register_kernel(std::shared_ptr<ptx::Module> module, const std::string& name);

/// A variable's memory on a device; throws cudaErrorInvalidSymbol.
ptx::VariableView resolve_symbol(const void* symbol, int device);

/// The code that CUDA would give for a fault, and for an image that cannot be used.
cudaError_t code_of(const ptx::Fault& fault);

}  // namespace sandbox::cudart

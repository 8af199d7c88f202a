// Registration: what nvcc's static constructors call, and the look-up of kernels and variables.
#include "registry.h"

#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "device.h"
#include "error.h"

namespace sandbox::cudart {
namespace {

struct Variable {
  std::shared_ptr<ptx::Module> module;
  std::string name;
  std::size_t bytes = 0;
  void** managed = nullptr;  // the program's pointer to a __managed__ variable
};

/// Lives as long as the process: it is used from static constructors and destructors.
struct Registry {
  mutable std::shared_mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<ptx::Module>> modules;  // by handle
  std::unordered_map<const void*, KernelEntry*> kernels;                  // by host stub and by handle
  std::unordered_map<const void*, Variable> variables;                    // by host shadow
};

Registry& registry() {
  static auto& instance = *new Registry;
  return instance;
}

std::shared_ptr<ptx::Module> module_of(void** handle) {
  std::shared_lock lock(registry().mutex);
  const auto found = registry().modules.find(handle);
  return found == registry().modules.end() ? nullptr : found->second;
}

/// Gives the program's pointers to __managed__ variables their memory.
void bind_managed(const std::shared_ptr<ptx::Module>& module) {
  std::vector<Variable> managed;
  {
    std::shared_lock lock(registry().mutex);
    for (const auto& [host, variable] : registry().variables) {
      if (variable.managed != nullptr && (module == nullptr || variable.module == module))
        managed.push_back(variable);
    }
  }
  for (const auto& variable : managed) {
    if (const auto view = variable.module->variable(variable.name, 0); view.has_value())
      *variable.managed = view->address;
  }
}

KernelEntry& add_kernel(std::shared_ptr<ptx::Module> module, const std::string& name,
                        const void* host_function) {
  auto* entry = new KernelEntry(std::move(module), name, host_function);  // handles never die
  std::lock_guard lock(registry().mutex);
  registry().kernels.emplace(entry, entry);
  if (host_function != nullptr) registry().kernels.insert_or_assign(host_function, entry);
  return *entry;
}

}  // namespace

cudaError_t code_of(const ptx::Fault& fault) {
  switch (fault.kind) {
    case ptx::FaultKind::illegal_address:
      return cudaErrorIllegalAddress;
    case ptx::FaultKind::misaligned_address:
      return cudaErrorMisalignedAddress;
    case ptx::FaultKind::assertion:
      return cudaErrorAssert;
    case ptx::FaultKind::trap:
      return cudaErrorLaunchFailure;
    case ptx::FaultKind::deadlock:
      return cudaErrorLaunchTimeout;
    case ptx::FaultKind::unsupported:
      return cudaErrorNotSupported;
    case ptx::FaultKind::invalid_image:
      return fault.message.find("no PTX") != std::string::npos ? cudaErrorNoKernelImageForDevice
                                                               : cudaErrorInvalidPtx;
    case ptx::FaultKind::invalid_launch:
      return cudaErrorInvalidConfiguration;
    case ptx::FaultKind::timeout:
      return cudaErrorLaunchTimeout;
  }
  return cudaErrorUnknown;
}

ptx::Kernel& KernelEntry::kernel() {
  std::lock_guard lock(mutex_);
  if (kernel_ != nullptr) return *kernel_;
  try {
    kernel_ = module_->kernel(name_);
    if (kernel_ != nullptr) attributes_ = ptx::attributes(*kernel_);
  } catch (const ptx::Fault& fault) {
    fail(code_of(fault), "kernel %s: %s", name_.c_str(), fault.message.c_str());
  }
  if (kernel_ == nullptr)
    fail(cudaErrorInvalidDeviceFunction, "kernel %s is not in its image", name_.c_str());
  return *kernel_;
}

const ptx::KernelAttributes& KernelEntry::attributes() {
  kernel();
  return attributes_;
}

KernelEntry& resolve_kernel(const void* function) {
  std::shared_lock lock(registry().mutex);
  const auto found = registry().kernels.find(function);
  if (found == registry().kernels.end()) fail(cudaErrorInvalidDeviceFunction);
  return *found->second;
}

KernelEntry& register_kernel(std::shared_ptr<ptx::Module> module, const std::string& name) {
  return add_kernel(std::move(module), name, nullptr);
}

ptx::VariableView resolve_symbol(const void* symbol, int device) {
  Variable variable;
  {
    std::shared_lock lock(registry().mutex);
    const auto found = registry().variables.find(symbol);
    if (found == registry().variables.end()) fail(cudaErrorInvalidSymbol);
    variable = found->second;
  }
  try {
    const auto view = variable.module->variable(variable.name, variable.managed != nullptr ? 0 : device);
    if (view.has_value()) return *view;
  } catch (const ptx::Fault& fault) {
    fail(code_of(fault), "variable %s: %s", variable.name.c_str(), fault.message.c_str());
  }
  fail(cudaErrorInvalidSymbol, "variable %s is not in its image", variable.name.c_str());
}

}  // namespace sandbox::cudart

using namespace sandbox::cudart;
using sandbox::ptx::Module;

extern "C" {

// nvcc declares these in its own stubs only.
void** __cudaRegisterFatBinary(void* fatCubin);
void __cudaRegisterFatBinaryEnd(void** fatCubinHandle);
void __cudaUnregisterFatBinary(void** fatCubinHandle);
void __cudaRegisterFunction(void** fatCubinHandle, const char* hostFun, char* deviceFun,
                            const char* deviceName, int thread_limit, uint3* tid, uint3* bid, dim3* bDim,
                            dim3* gDim, int* wSize);
void __cudaRegisterVar(void** fatCubinHandle, char* hostVar, char* deviceAddress, const char* deviceName,
                       int ext, size_t size, int constant, int global);
void __cudaRegisterManagedVar(void** fatCubinHandle, void** hostVarPtrAddress, char* deviceAddress,
                              const char* deviceName, int ext, size_t size, int constant, int global);
char __cudaInitModule(void** fatCubinHandle);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* hostFun);

void** __cudaRegisterFatBinary(void* fatCubin) {
  auto* handle = new void*(fatCubin);
  std::lock_guard lock(registry().mutex);
  registry().modules.emplace(handle, Module::from_wrapper(fatCubin));
  return handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

/// Kernels of the module may still run; at exit nothing is worth freeing, and dlclose keeps our copy.
void __cudaUnregisterFatBinary(void** fatCubinHandle) {
  std::lock_guard lock(registry().mutex);
  registry().modules.erase(fatCubinHandle);
}

void __cudaRegisterFunction(void** fatCubinHandle, const char* hostFun, char*, const char* deviceName, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  if (auto module = module_of(fatCubinHandle); module != nullptr)
    add_kernel(std::move(module), deviceName, hostFun);
}

void __cudaRegisterVar(void** fatCubinHandle, char* hostVar, char*, const char* deviceName, int, size_t size,
                       int, int) {
  auto module = module_of(fatCubinHandle);
  if (module == nullptr) return;
  std::lock_guard lock(registry().mutex);
  registry().variables.insert_or_assign(hostVar, Variable{std::move(module), deviceName, size, nullptr});
}

void __cudaRegisterManagedVar(void** fatCubinHandle, void** hostVarPtrAddress, char*, const char* deviceName,
                              int, size_t size, int, int) {
  auto module = module_of(fatCubinHandle);
  if (module == nullptr) return;
  std::lock_guard lock(registry().mutex);
  registry().variables.insert_or_assign(hostVarPtrAddress,
                                        Variable{std::move(module), deviceName, size, hostVarPtrAddress});
}

char __cudaInitModule(void** fatCubinHandle) {
  const cudaError_t result = entry([&] {
    enter_process();
    bind_managed(module_of(fatCubinHandle));
  });
  return result == cudaSuccess ? 1 : 0;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* hostFun) {
  return entry([&] { *kernel = reinterpret_cast<cudaKernel_t>(&resolve_kernel(hostFun)); });
}

cudaError_t cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
  return entry([&] {
    enter();
    require(kernelPtr != nullptr);
    *kernelPtr = reinterpret_cast<cudaKernel_t>(&resolve_kernel(entryFuncAddr));
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* functionPtr, const void* symbolPtr) {
  return entry([&] {
    enter();
    require(functionPtr != nullptr);
    *functionPtr = reinterpret_cast<cudaFunction_t>(&resolve_kernel(symbolPtr));
  });
}

cudaError_t cudaGetSymbolAddress(void** devPtr, const void* symbol) {
  return entry([&] {
    Device& device = enter();
    require(devPtr != nullptr);
    *devPtr = resolve_symbol(symbol, device.index).address;
  });
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  return entry([&] {
    Device& device = enter();
    require(size != nullptr);
    *size = resolve_symbol(symbol, device.index).bytes;
  });
}

}  // extern "C"

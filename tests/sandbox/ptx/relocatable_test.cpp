// Relocatable device code: the modules behind a version 2 wrapper act as one program.
#include "program.h"
#include "support/catch.h"

namespace {
const void* registered_wrapper = nullptr;
}

// What nvcc's start-up code calls; only the wrapper matters here.
extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
char __cudaInitModule(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int limit,
                            void* a, void* b, void* c, void* d, int* e);
void __cudaRegisterVar(void** handle, char* host, char* device, const char* name, int external,
                       std::size_t bytes, int constant, int global);
int __cudaPopCallConfiguration(void* grid, void* block, void* shared, void* stream);
int __cudaGetKernel(void* kernel, const void* host);
int __cudaLaunchKernel(void* kernel);
int cudaLaunchKernel(void* kernel);

void** __cudaRegisterFatBinary(void* wrapper) {
  registered_wrapper = wrapper;
  return nullptr;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 1;
}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
int __cudaPopCallConfiguration(void*, void*, void*, void*) {
  return 1;
}
int __cudaGetKernel(void*, const void*) {
  return 1;
}
int __cudaLaunchKernel(void*) {
  return 1;
}
int cudaLaunchKernel(void*) {
  return 1;
}
}

TEST_CASE("Relocatable.ModulesBehindOneWrapperAreLinked") {
  REQUIRE(registered_wrapper != nullptr);
  const auto module = sandbox::ptx::Module::from_wrapper(registered_wrapper);
  const auto launch = [&](const char* name, void** arguments) {
    auto* kernel = module->kernel(name);
    REQUIRE(kernel != nullptr);
    const auto packed = sandbox::ptx::pack_arguments(*kernel, arguments);
    sandbox::ptx::Launch call;
    call.block = {3, 1, 1};
    call.arguments = packed;
    const auto fault = sandbox::ptx::run(*kernel, call);
    INFO((fault ? fault->message : ""));
    REQUIRE_FALSE(fault);
  };
  const ptx_test::DeviceArray<int> cells(std::vector<int>{1, 2, 3});
  int* data = cells.data();
  void* arguments[] = {&data};
  launch("use_other_half", arguments);
  CHECK(cells.values() == std::vector<int>{1 * 2 + 7 + 105, 2 * 2 + 7 + 105, 3 * 2 + 7 + 105});
  const auto shared = module->variable("shared_value", 0);
  REQUIRE(shared);
  *static_cast<int*>(shared->address) = 1000;
  launch("use_other_half", arguments);
  CHECK(cells[0] == 114 * 2 + 7 + 1005);
}

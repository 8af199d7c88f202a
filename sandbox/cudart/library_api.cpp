// Code that programs load themselves: libraries of kernels and variables from fatbins or PTX text.
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "device.h"
#include "handle_table.h"
#include "registry.h"

using namespace sandbox::cudart;
using sandbox::ptx::Module;

namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1;
constexpr std::uint32_t kContainerMagic = 0xba55ed50;
constexpr std::size_t kContainerHeaderBytes = 16;

struct Library {
  std::vector<std::byte> image;
  std::shared_ptr<Module> module;
  std::mutex mutex;
  std::map<std::string, KernelEntry*> kernels;
};

HandleTable<Library>& table() {
  static auto& instance = *new HandleTable<Library>;
  return instance;
}

/// The extent of an image is written in it, or its end is the end of its text.
std::shared_ptr<Module> load(Library& library, const void* code) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, code, sizeof magic);
  if (magic == kWrapperMagic) return Module::from_wrapper(code);
  std::size_t bytes = 0;
  if (magic == kContainerMagic) {
    std::uint64_t payload = 0;
    std::memcpy(&payload, static_cast<const std::byte*>(code) + 8, sizeof payload);
    bytes = kContainerHeaderBytes + payload;
  } else {
    bytes = std::strlen(static_cast<const char*>(code));
  }
  const auto* first = static_cast<const std::byte*>(code);
  library.image.assign(first, first + bytes);
  return Module::from_image(library.image);
}

void refuse_options(unsigned jit_options, unsigned library_options) {
  if (jit_options != 0 || library_options != 0) {
    fail(cudaErrorNotSupported, "options of library loading are not implemented");
  }
}

void create(cudaLibrary_t* out, const void* code) {
  enter();
  require(out != nullptr && code != nullptr);
  auto library = std::make_shared<Library>();
  library->module = load(*library, code);
  *out = reinterpret_cast<cudaLibrary_t>(library.get());
  table().insert(std::move(library));
}

}  // namespace

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned int numJitOptions, cudaLibraryOption*, void**,
                                unsigned int numLibraryOptions) {
  return entry([&] {
    refuse_options(numJitOptions, numLibraryOptions);
    create(library, code);
  });
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* fileName, cudaJitOption*, void**,
                                    unsigned int numJitOptions, cudaLibraryOption*, void**,
                                    unsigned int numLibraryOptions) {
  return entry([&] {
    refuse_options(numJitOptions, numLibraryOptions);
    require(fileName != nullptr);
    std::ifstream file(fileName, std::ios::binary);
    if (!file) fail(cudaErrorFileNotFound);
    std::vector<char> text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    text.push_back('\0');
    create(library, text.data());
  });
}

/// Its kernels may still run, and their handles stay known: only the library's own handle goes.
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return entry([&] {
    enter_process();
    table().remove(library);
  });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* pKernel, cudaLibrary_t library, const char* name) {
  return entry([&] {
    enter();
    require(pKernel != nullptr && name != nullptr);
    const auto from = table().get(library);
    std::lock_guard lock(from->mutex);
    auto& entry = from->kernels[name];
    if (entry == nullptr) {
      bool known = false;
      try {
        known = from->module->kernel(name) != nullptr;
      } catch (const sandbox::ptx::Fault& fault) {
        fail(code_of(fault), "library: %s", fault.message.c_str());
      }
      if (!known) fail(cudaErrorSymbolNotFound);
      entry = &register_kernel(from->module, name);
    }
    *pKernel = reinterpret_cast<cudaKernel_t>(entry);
  });
}

cudaError_t cudaLibraryGetGlobal(void** dptr, size_t* bytes, cudaLibrary_t library, const char* name) {
  return entry([&] {
    Device& device = enter();
    require(name != nullptr);
    const auto view = table().get(library)->module->variable(name, device.index);
    if (!view.has_value()) fail(cudaErrorSymbolNotFound);
    if (dptr != nullptr) *dptr = view->address;
    if (bytes != nullptr) *bytes = view->bytes;
  });
}

}  // extern "C"

// Writes down a launch, which it sees because the linker leads calls of cudaLaunchKernelExC here (--wrap).
#include "record.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>

namespace sdp4bit::bench {
namespace {

struct Seen {
  std::string kernel;
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  std::vector<std::byte> parameters;
};
/// The launch since begin(), where one is awaited.
std::optional<Seen> g_seen;
bool g_awaited = false;

std::vector<std::byte> contents(const DeviceMemory& memory) {
  std::vector<std::byte> bytes;
  for (const DeviceMemory::Region& region : memory.regions()) {
    const std::size_t begin = bytes.size();
    bytes.resize(begin + region.bytes);
    check(cudaMemcpy(bytes.data() + begin, region.data, region.bytes, cudaMemcpyDeviceToHost));
  }
  return bytes;
}

void see(const cudaLaunchConfig_t& config, const void* function, void** arguments) {
  Seen seen;
  const char* name = nullptr;
  check(cudaFuncGetName(&name, function));
  seen.kernel = name;
  seen.grid = config.gridDim;
  seen.block = config.blockDim;
  seen.shared_bytes = config.dynamicSmemBytes;
  std::size_t offset = 0, bytes = 0;
  for (std::size_t i = 0; cudaFuncGetParamInfo(function, i, &offset, &bytes) == cudaSuccess; ++i) {
    const auto* const argument = static_cast<const std::byte*>(arguments[i]);
    seen.parameters.resize(offset);
    seen.parameters.insert(seen.parameters.end(), argument, argument + bytes);
  }
  (void)cudaGetLastError();  // the question for one parameter too many
  if (g_seen) throw std::runtime_error("a recorded case must be one launch");
  g_seen = std::move(seen);
}

std::string hexadecimal(const std::vector<std::byte>& bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::string extent(const dim3& of) {
  return "[" + std::to_string(of.x) + "," + std::to_string(of.y) + "," + std::to_string(of.z) + "]";
}

void write(std::ofstream& file, const std::vector<std::byte>& bytes) {
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

Recorder::Recorder(const std::string& folder, std::size_t number) {
  if (folder.empty()) return;
  std::filesystem::create_directories(folder);
  path_ = folder + "/" + std::to_string(number) + ".launch";
}

void Recorder::begin(const DeviceMemory& memory) {
  if (path_.empty()) return;
  before_ = contents(memory);
  g_seen.reset();
  g_awaited = true;
}

void Recorder::end(const Case& row, const PreparedCase& prepared) {
  if (path_.empty()) return;
  g_awaited = false;
  if (!g_seen) throw std::runtime_error("the case " + row.name + " launched nothing");
  std::string head = "{\"row\": \"" + row.name + "\", \"kernel\": \"" + g_seen->kernel +
                     "\", \"grid\": " + extent(g_seen->grid) + ", \"block\": " + extent(g_seen->block) +
                     ", \"dynamic_shared_bytes\": " + std::to_string(g_seen->shared_bytes) +
                     ", \"elements\": " + std::to_string(prepared.elements) + ", \"parameters\": \"" +
                     hexadecimal(g_seen->parameters) + "\", \"regions\": [";
  const char* separator = "";
  for (const DeviceMemory::Region& region : prepared.memory.regions()) {
    head += separator + std::string("[") + std::to_string(reinterpret_cast<std::uintptr_t>(region.data)) +
            "," + std::to_string(region.bytes) + "]";
    separator = ", ";
  }
  std::ofstream file(path_, std::ios::binary);
  file << head << "]}\n";
  write(file, before_);
  write(file, contents(prepared.memory));
  if (!file.flush()) throw std::runtime_error("cannot write " + path_);
}

}  // namespace sdp4bit::bench

extern "C" {

cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                       void** arguments);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                       void** arguments);

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                       void** arguments) {
  if (sdp4bit::bench::g_awaited) sdp4bit::bench::see(*config, function, arguments);
  return __real_cudaLaunchKernelExC(config, function, arguments);
}

}  // extern "C"

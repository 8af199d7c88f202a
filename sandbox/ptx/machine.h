// The door to the PTX machine: load a fatbin, find its kernels and variables, run a kernel to its end.
//
// Used by the runtime stand-in only. Everything here is thread-safe; run() may be called from several threads
// at once (streams, devices) and shares one pool of CPU workers between them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sandbox::ptx {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// What went wrong in a kernel; the runtime maps the kind to the error code CUDA would give.
enum class FaultKind : std::uint8_t {
  illegal_address,     // out of bounds, use after free, uninitialized read
  misaligned_address,  // an access not aligned to its size
  assertion,           // device assert
  trap,                // trap, brkpt
  deadlock,            // all warps wait for lanes or threads that cannot come
  unsupported,         // an instruction, directive or special register the machine does not know
  invalid_image,       // no PTX that this machine can run, or PTX that does not parse
  invalid_launch,      // sizes beyond the device's limits
  timeout,             // SANDBOX_KERNEL_TIMEOUT seconds passed
};

struct Fault {
  FaultKind kind;
  std::string message;  // one line: kernel, PTX or source line, block, thread, address, nearest allocation
};

struct KernelAttributes {
  int registers = 0;
  std::size_t static_shared_bytes = 0;
  std::size_t local_bytes = 0;
  std::size_t constant_bytes = 0;
  int max_threads_per_block = 1024;
  int ptx_version = 0;  // 80, 90, ...
};

/// Machine-independent work of all launches of one kernel.
struct KernelCounters {
  std::string kernel;
  std::uint64_t launches = 0;
  std::uint64_t lane_instructions = 0;
  std::uint64_t global_bytes_loaded = 0;
  std::uint64_t global_bytes_stored = 0;
  std::uint64_t global_requests = 0;  // warp-level global accesses
  std::uint64_t global_sectors = 0;   // distinct 32-byte sectors touched, summed over requests
};

class Kernel;  // opaque

struct VariableView {
  void* address = nullptr;
  std::size_t bytes = 0;
};

/// One fatbin of the program (all its PTX images).
class Module {
 public:
  /// `wrapper` is the object passed to __cudaRegisterFatBinary. Cheap: nothing is parsed until asked for.
  static std::shared_ptr<Module> from_wrapper(const void* wrapper);
  /// A bare image: a fatbin container, or PTX text.
  static std::shared_ptr<Module> from_image(std::span<const std::byte> image);

  /// The kernel of that (mangled) name, parsed but not lowered; nullptr if there is none.
  /// Throws Fault on an image that cannot be read.
  Kernel* kernel(std::string_view name);
  /// A __device__ or __constant__ variable's memory on one device, allocated and initialized at first use.
  std::optional<VariableView> variable(std::string_view name, int device);

  struct Impl;
  explicit Module(std::unique_ptr<Impl> impl);
  ~Module();

 private:
  std::unique_ptr<Impl> impl_;
};

const std::string& name(const Kernel& kernel);
KernelAttributes attributes(const Kernel& kernel);
/// Where an argument lies among a kernel's parameters.
struct ParameterPlace {
  std::size_t offset, bytes;
};
/// Empty where the kernel has no such parameter.
std::optional<ParameterPlace> parameter_place(const Kernel& kernel, std::size_t index);
/// Copies the arguments behind a launch's `void** args` into a parameter buffer (layout from the PTX .param
/// list). `buffer`: memory to use, whatever is in it.
std::vector<std::byte> pack_arguments(const Kernel& kernel, void* const* args,
                                      std::vector<std::byte> buffer = {});

struct Launch {
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;
  std::size_t dynamic_shared_bytes = 0;
  bool cooperative = false;  // all blocks run together and can wait for each other
  int device = 0;
  std::span<const std::byte> arguments;       // from pack_arguments
  const std::atomic<bool>* cancel = nullptr;  // set by device reset or exit: the kernel ends soon
};

/// What keeps the kernel from being launched so, if anything: sizes, or an instruction that is not known in
/// it or in the functions that it calls by name. Lowers it at the first call.
std::optional<Fault> refusal(Kernel& kernel, const Launch& launch);

/// Lowers the kernel at its first launch and executes it to completion on the calling thread and the pool.
/// Returns what went wrong, if anything. Buffered printf output is written to stdout before it returns.
std::optional<Fault> run(Kernel& kernel, const Launch& launch);

/// Counters of all kernels launched so far, by name.
std::vector<KernelCounters> counters();
void reset_counters();

/// "avx512", "avx2" or "sse2": the SIMD width chosen for this CPU (SANDBOX_SIMD overrides).
const char* simd_name();

}  // namespace sandbox::ptx

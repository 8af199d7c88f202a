// Stands between the library and CUDA, NCCL, the system and malloc; see injector.h.
//
// Every name of calls.def is exported as a few instructions that keep all arguments, ask decide(), and then
// jump to the real function or return an error: so no signature is repeated here.
#include "injector.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace sdp4bit::faults {
namespace {

struct Function {
  const char* name;
  int error;  // below zero: it returns -1, and errno is this
};
constexpr Function kFunctions[] = {
#define FAULT_CALL(name, error) {#name, error},
#include "calls.def"
#undef FAULT_CALL
};
constexpr std::size_t kFunctionCount = sizeof kFunctions / sizeof *kFunctions;
constexpr unsigned kStopSeconds = 3;

/// Where the code of libsdp4bit.so lies.
struct Range {
  std::uint64_t base = 0, begin = 0, end = 0;
};

int find_library(dl_phdr_info* info, std::size_t, void* found) {
  const char* const file = std::strrchr(info->dlpi_name, '/');
  if (!file || std::strncmp(file, "/libsdp4bit.so", 14) != 0) return 0;
  auto& range = *static_cast<Range*>(found);
  range.base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    range.begin = info->dlpi_addr + part.p_vaddr;
    range.end = range.begin + part.p_memsz;
  }
  return 1;
}

const Range& library() {
  static const Range range = [] {
    Range found;
    ::dl_iterate_phdr(find_library, &found);
    return found;
  }();
  return range;
}

/// Open addressing by the offset; written once per site.
struct Slot {
  std::atomic<std::uint64_t> offset{0};
  std::atomic<std::uint32_t> function{0}, calls{0};
};
std::array<Slot, 1024> slots;

Slot& slot_of(std::uint64_t offset, std::uint32_t function) {
  for (std::size_t i = offset * 0x9E3779B97F4A7C15u >> 54;; i = (i + 1) % slots.size()) {
    std::uint64_t seen = 0;
    if (slots[i].offset.compare_exchange_strong(seen, offset)) slots[i].function.store(function);
    if (seen == 0 || seen == offset) return slots[i];
  }
}

std::atomic<Action> action{Action::none};
std::atomic<std::uint64_t> armed_offset{0};
std::atomic<std::uint32_t> calls_left{0};
std::atomic<int> armed_error{0};
std::atomic<bool> has_fired{false};

std::atomic<std::uint64_t> malloc_calls{0};
std::atomic<std::uint32_t> mallocs_left{0};

void* real_function(std::uint32_t function) {
  const char* const name = kFunctions[function].name;
  if (std::strncmp(name, "pnccl", 5) != 0) return ::dlsym(RTLD_NEXT, name);
  static void* const nccl = ::dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_LAZY);
  return nccl ? ::dlsym(nccl, name) : nullptr;
}

std::array<std::atomic<void*>, kFunctionCount> real_functions;

bool strikes_here(std::uint64_t offset) {
  if (action.load(std::memory_order_relaxed) == Action::none || armed_offset.load() != offset) return false;
  const std::uint32_t left = calls_left.load();
  if (left == 0) return action.load() == Action::break_for_good;
  return calls_left.fetch_sub(1) == 1;
}

int failed(std::uint32_t function) {
  const int error = armed_error.load() != 0 ? armed_error.load() : kFunctions[function].error;
  if (error > 0) return error;
  errno = -error;
  return -1;
}

}  // namespace

/// Called by every thunk: the error to return, or 0 and the function to jump to in `real`.
extern "C" int sdp4bit_faults_decide(std::uint32_t function, std::uint64_t return_address, void** real) {
  void* target = real_functions[function].load(std::memory_order_relaxed);
  if (!target) {
    target = real_function(function);
    real_functions[function].store(target);
  }
  *real = target;
  const Range& range = library();
  if (return_address < range.begin || return_address >= range.end)
    return target ? 0 : kFunctions[function].error;
  const std::uint64_t offset = return_address - range.base;
  slot_of(offset, function).calls.fetch_add(1, std::memory_order_relaxed);
  if (strikes_here(offset)) {
    has_fired.store(true);
    switch (action.load()) {
      case Action::none:
        break;
      case Action::fail:
      case Action::break_for_good:
        return failed(function);
      case Action::kill:
        ::raise(SIGKILL);
        break;
      case Action::stop:
        ::sleep(kStopSeconds);
        break;
      case Action::leave:
        std::exit(7);
    }
  }
  return target ? 0 : kFunctions[function].error;
}

namespace {

void arm(Action what, std::uint64_t offset, std::uint32_t number, int error) {
  has_fired.store(false);
  armed_error.store(error);
  calls_left.store(number);
  armed_offset.store(offset);
  action.store(what);
}
void fail_malloc(std::uint32_t number) {
  has_fired.store(false);
  mallocs_left.store(number);
}
bool fired() {
  return has_fired.load();
}
std::size_t sites(CallSite* found, std::size_t capacity) {
  std::size_t count = 0;
  for (const Slot& slot : slots) {
    if (slot.offset.load() == 0) continue;
    if (count < capacity) found[count] = {slot.offset.load(), slot.function.load(), slot.calls.load()};
    ++count;
  }
  return count;
}
std::uint64_t mallocs() {
  return malloc_calls.load();
}
const char* function_name(std::uint32_t function) {
  return function < kFunctionCount ? kFunctions[function].name : "malloc";
}
bool is_of_gpu(std::uint32_t function) {
  const std::string_view name = function_name(function);
  return name.starts_with("cuda") || name.starts_with("pnccl");
}
constexpr Injector kInjector{arm, fail_malloc, fired, sites, mallocs, function_name, is_of_gpu};

}  // namespace
}  // namespace sdp4bit::faults

extern "C" __attribute__((visibility("default"))) const sdp4bit::faults::Injector* sdp4bit_faults_injector() {
  return &sdp4bit::faults::kInjector;
}

extern "C" void* __libc_malloc(std::size_t bytes);

/// glibc's, but for the library's call that is to fail. The range is known once a call of CUDA was seen.
extern "C" __attribute__((visibility("default"))) void* malloc(std::size_t bytes) {
  using namespace sdp4bit::faults;
  static thread_local bool inside = false;
  const auto caller = reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
  if (!inside) {
    inside = true;
    const Range& range = library();
    inside = false;
    if (caller >= range.begin && caller < range.end) {
      malloc_calls.fetch_add(1, std::memory_order_relaxed);
      std::uint32_t left = mallocs_left.load(std::memory_order_relaxed);
      if (left > 0 && mallocs_left.compare_exchange_strong(left, left - 1) && left == 1) {
        has_fired.store(true);
        return nullptr;
      }
    }
  }
  return __libc_malloc(bytes);
}

// The thunks, numbered by the assembler. At entry %rsp is 8 beyond a multiple of 16; six pushes and 24 bytes
// make it one.
__asm__(".set fault_number, 0\n");
#define FAULT_CALL(name, error)                                              \
  __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name      \
          ":\n"                                                              \
          "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\n" \
          "sub $24, %rsp\n"                                                  \
          "mov $fault_number, %edi\nmov 72(%rsp), %rsi\nlea 8(%rsp), %rdx\n" \
          "call sdp4bit_faults_decide@PLT\n"                                 \
          "mov 8(%rsp), %r11\n"                                              \
          "add $24, %rsp\n"                                                  \
          "pop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n"       \
          "test %eax, %eax\njne 1f\njmp *%r11\n1: movslq %eax, %rax\nret\n"  \
          ".size " #name ", . - " #name "\n.set fault_number, fault_number + 1\n");
#include "calls.def"

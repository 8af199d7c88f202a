// Single steps of the calling thread, by the processor's trap flag (x86-64): no tracer, no performance
// counter, no right that containers withhold.
//
// Where the library calls another one, the flag is cleared and the return address replaced by that of a
// breakpoint, which puts both right again.
#include "instructions.h"

#include <link.h>
#include <ucontext.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>

asm(".text\n.type returned_from_elsewhere, @function\nreturned_from_elsewhere:\nint3\n");
extern "C" void returned_from_elsewhere();

namespace {

constexpr greg_t kTrapFlag = 0x100;

struct Code {
  std::uintptr_t begin = 0, end = 0;
  std::uintptr_t in_file = 0;  // the address of `begin` there
  [[nodiscard]] bool holds(std::uintptr_t address) const { return address >= begin && address < end; }
};

Code code;
std::uint64_t counted = 0;
std::uint32_t* runs = nullptr;               // of the code's bytes, or nullptr
std::uintptr_t last = 0;                     // the instruction that was stepped before; 0: of no interest
std::array<std::uintptr_t, 64> return_to{};  // of calls to elsewhere that have not returned
std::size_t calls = 0;

bool is_return(std::uintptr_t instruction) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(instruction);
  if (*bytes == 0xf3 || *bytes == 0xf2) ++bytes;
  return *bytes == 0xc3 || *bytes == 0xc2;
}

extern "C" void count_step(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  auto at = static_cast<std::uintptr_t>(registers[REG_RIP]);
  if (at == reinterpret_cast<std::uintptr_t>(&returned_from_elsewhere) + 1) {
    at = return_to[--calls];
    registers[REG_RIP] = static_cast<greg_t>(at);
    registers[REG_EFL] |= kTrapFlag;
  } else if (last != 0 && !code.holds(at) && !is_return(last) && calls < return_to.size()) {
    auto& return_address = *reinterpret_cast<std::uintptr_t*>(registers[REG_RSP]);
    return_to[calls++] = return_address;
    return_address = reinterpret_cast<std::uintptr_t>(&returned_from_elsewhere);
    registers[REG_EFL] &= ~kTrapFlag;
  }
  last = code.holds(at) ? at : 0;
  if (last == 0) return;
  ++counted;
  if (runs != nullptr) ++runs[last - code.begin];
}

Code code_around(const void* address) {
  struct Search {
    std::uintptr_t address;
    Code found;
  } search{reinterpret_cast<std::uintptr_t>(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = object->dlpi_phdr[i];
          const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
          if (wanted.address - begin < part.p_memsz)
            wanted.found = {begin, begin + part.p_memsz, part.p_vaddr};
        }
        return wanted.found.end != 0 ? 1 : 0;
      },
      &search);
  return search.found;
}

// The flag is in the thread's flags register; a function may use 128 bytes below the stack without asking.
__attribute__((noinline)) void set_trap_flag() {
  asm volatile("lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
                   : "cc", "memory");
}
__attribute__((noinline)) void clear_trap_flag() {
  asm volatile("lea -128(%%rsp), %%rsp\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
                   : "cc", "memory");
}

}  // namespace

std::uint64_t count_instructions(const void* address, const std::function<void()>& work,
                                 InstructionProfile* profile) {
  struct sigaction action {
  }, before{};
  action.sa_sigaction = count_step;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGTRAP, &action, &before) != 0) std::abort();
  code = code_around(address);
  counted = last = calls = 0;
  runs = nullptr;
  if (profile != nullptr) {
    *profile = {.runs = std::vector<std::uint32_t>(code.end - code.begin), .first = code.in_file};
    runs = profile->runs.data();
  }
  set_trap_flag();
  work();
  clear_trap_flag();
  sigaction(SIGTRAP, &before, nullptr);
  return counted;
}

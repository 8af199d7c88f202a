// Faults at the library's own calls of CUDA, NCCL, the system and malloc: a library that is preloaded before
// it stands between.
//
// A call site is an instruction of libsdp4bit.so that calls one of calls.def; it is named by its offset in
// that file. Calls of the program and of other libraries are passed on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sdp4bit::faults {

struct CallSite {
  std::uint64_t offset;    // of the return address in libsdp4bit.so
  std::uint32_t function;  // row of calls.def
  std::uint32_t calls;     // so far
};

enum class Action : std::uint32_t {
  none,
  fail,            // the call is not made and says that it failed
  break_for_good,  // and so do all later ones of the site
  kill,            // SIGKILL
  stop,            // the thread sleeps for some seconds, then the call is made
  leave,           // exit(7), as a handler of signals or another thread may do
};

/// What injector.cpp exports.
struct Injector {
  /// Does `action` at the `number`-th (1 = the first) call from now on of the site at `offset`. `error`: what
  /// a failed call returns; 0: as calls.def says; below: -1, with this errno, which system calls do.
  void (*arm)(Action action, std::uint64_t offset, std::uint32_t number, int error);
  /// Lets the library's `number`-th call of malloc from now on fail; 0: off.
  void (*fail_malloc)(std::uint32_t number);
  /// Whether what was armed has happened.
  bool (*fired)();
  /// Sites that called so far; returns their number.
  std::size_t (*sites)(CallSite* found, std::size_t capacity);
  /// The library's calls of malloc so far.
  std::uint64_t (*mallocs)();
  const char* (*function_name)(std::uint32_t function);
  /// Whether it is one of CUDA or NCCL.
  bool (*is_of_gpu)(std::uint32_t function);
};

}  // namespace sdp4bit::faults

extern "C" const sdp4bit::faults::Injector* sdp4bit_faults_injector();

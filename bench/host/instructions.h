// How many instructions a thread executes in one library: a measure of cost that a busy machine does not
// change.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

/// How often each instruction ran, by its address in the object's file.
struct InstructionProfile {
  std::vector<std::uint32_t> runs;  // of the byte at first + its index, where an instruction begins
  std::uintptr_t first = 0;
};

/// Instructions that this thread executes during `work` in the code of the object that holds `address`, each
/// of them stopped by a trap (some microseconds each); what that code calls elsewhere runs at full speed and
/// does not count. Only one thread at a time; SIGTRAP must not be blocked, nothing may be thrown through.
/// `profile`, where given, is filled.
std::uint64_t count_instructions(const void* address, const std::function<void()>& work,
                                 InstructionProfile* profile = nullptr);

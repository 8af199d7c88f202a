// Handlers that need no vector instructions, by file; and what they share.
#pragma once

#include <cstdint>

#include "sandbox/ptx/ir.h"

namespace sandbox::ptx {

struct Function;

void install_control(Handler* handlers);     // control.cpp
void install_barrier(Handler* handlers);     // barrier.cpp
void install_collective(Handler* handlers);  // collective.cpp: votes, matches, reductions of a warp
void install_atomic(Handler* handlers);      // atomic.cpp
void install_system(Handler* handlers);      // system.cpp: printf, assert, clocks, modes

/// The function whose address a kernel may hold, or nullptr.
const Function* find_known_function(std::uint64_t address);
void remember_function(const Function& function);

}  // namespace sandbox::ptx

// What each instruction-set build offers to the rest: its handlers, by operation.
#pragma once

#include "sandbox/ptx/ir.h"

namespace sandbox::ptx {

#define DECLARE_SIMD_BUILD(name)                                    \
  namespace name {                                                  \
  void install_integer(Handler* handlers);                          \
  void install_float(Handler* handlers);                            \
  void install_half(Handler* handlers);                             \
  void install_convert(Handler* handlers);                          \
  void install_memory(Handler* handlers);                           \
  void install_shuffle(Handler* handlers);                          \
  /* Runs until a fragment meets another one or a handler stops. */ \
  const Instr* interpret(Warp& warp, const Instr* from);            \
  }
DECLARE_SIMD_BUILD(baseline)
DECLARE_SIMD_BUILD(avx2)
DECLARE_SIMD_BUILD(avx512)
#undef DECLARE_SIMD_BUILD

struct SimdBuild {
  const char* name;
  Handler handlers[static_cast<int>(Op::count)];
  const Instr* (*interpret)(Warp&, const Instr*);
};

/// The build for this CPU, or the one that SANDBOX_SIMD names.
const SimdBuild& simd_build();

}  // namespace sandbox::ptx

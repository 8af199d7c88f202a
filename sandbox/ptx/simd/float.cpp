// Handlers of ops/float.def.
#include "sandbox/ptx/simd/float_math.h"
#include "sandbox/ptx/simd/tables.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

#define DEFINE_HANDLERS
// clang-format off
#include "sandbox/ptx/simd/define_handlers.h"
#include "sandbox/ptx/ops/float.def"
#include "sandbox/ptx/simd/undefine_handlers.h"
// clang-format on
#undef DEFINE_HANDLERS

}  // namespace

void install_float(Handler* handlers) {
// clang-format off
#include "sandbox/ptx/simd/define_handlers.h"
#include "sandbox/ptx/ops/float.def"
#include "sandbox/ptx/simd/undefine_handlers.h"
  // clang-format on
}

}  // namespace sandbox::ptx::SIMD_NAMESPACE

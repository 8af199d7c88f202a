// Handlers of ops/half.def: 16-bit floats, one or two a lane.
#include "sandbox/ptx/simd/float_math.h"
#include "sandbox/ptx/simd/tables.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

/// The halves of a register of pairs are an array of twice as many values.
template <int values, class F>
LANE_INLINE const Instr* each_half(Warp& w, const Instr* i, F f) {
  const u32 mask = guarded_lanes(w, i);
  const u16* a = lanes<u16>(w, i->r[1]);
  const u16* b = lanes<u16>(w, i->r[2]);
  const u16* c = lanes<u16>(w, i->r[3]);
  alignas(64) u16 r[values];
  for (int l = 0; l < values; ++l) r[l] = f(a[l], b[l], c[l]);
  if (mask == kAllLanes) {
    u16* d = lanes<u16>(w, i->r[0]);
    for (int l = 0; l < values; ++l) d[l] = r[l];
  } else if constexpr (values == kLanes) {
    blend(lanes<u16>(w, i->r[0]), r, mask);
  } else {
    alignas(64) u32 pairs_of[kLanes];
    __builtin_memcpy(pairs_of, r, sizeof pairs_of);
    blend(lanes<u32>(w, i->r[0]), pairs_of, mask);
  }
  return i + 1;
}

#define ONE_FORM(name, format, suffix, values, ...)                                        \
  const Instr* name##_##suffix(Warp& w, const Instr* i) {                                  \
    using T = format;                                                                      \
    return each_half<values>(                                                              \
        w, i, [](u16 ha, u16 hb, u16 hc) __attribute__((always_inline)) {                  \
          [[maybe_unused]] const f32 a = widen<T>(ha), b = widen<T>(hb), c = widen<T>(hc); \
          return u16(__VA_ARGS__);                                                         \
        });                                                                                \
  }
#define HALF1(name, ...)                      \
  ONE_FORM(name, f16, f16, 32, __VA_ARGS__)   \
  ONE_FORM(name, bf16, bf16, 32, __VA_ARGS__) \
  ONE_FORM(name, f16, f16x2, 64, __VA_ARGS__) \
  ONE_FORM(name, bf16, bf16x2, 64, __VA_ARGS__)
#define HALF2 HALF1
#define HALF3 HALF1
#define DEFINE_HANDLERS
// clang-format off
#include "sandbox/ptx/simd/define_handlers.h"
#include "sandbox/ptx/ops/half.def"
#include "sandbox/ptx/simd/undefine_handlers.h"
// clang-format on
#undef DEFINE_HANDLERS
#undef HALF1

}  // namespace

void install_half(Handler* handlers) {
#define HALF1(name, ...)                                       \
  handlers[static_cast<int>(Op::name##_f16)] = name##_f16;     \
  handlers[static_cast<int>(Op::name##_bf16)] = name##_bf16;   \
  handlers[static_cast<int>(Op::name##_f16x2)] = name##_f16x2; \
  handlers[static_cast<int>(Op::name##_bf16x2)] = name##_bf16x2;
// clang-format off
#include "sandbox/ptx/simd/define_handlers.h"
#include "sandbox/ptx/ops/half.def"
#include "sandbox/ptx/simd/undefine_handlers.h"
  // clang-format on
}

}  // namespace sandbox::ptx::SIMD_NAMESPACE

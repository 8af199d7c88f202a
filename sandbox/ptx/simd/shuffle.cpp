// The interpreter's loop, branches, and what moves whole registers: shuffles, address conversions,
// predicates.
#include "sandbox/ptx/simd/memory_access.h"
#include "sandbox/ptx/simd/tables.h"
#include "sandbox/ptx/warp_control.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

/// d[l] = a[source[l]]
LANE_INLINE void gather(u32* d, const u32* a, const u32* source) {
#if defined(__AVX512F__)
  const __m512i low = _mm512_load_si512(a), high = _mm512_load_si512(a + 16);
  for (int l = 0; l < kLanes; l += 16)
    _mm512_store_si512(d + l, _mm512_permutex2var_epi32(low, _mm512_load_si512(source + l), high));
#elif defined(__AVX2__)
  __m256i part[4];
  for (int k = 0; k < 4; ++k) part[k] = _mm256_load_si256(reinterpret_cast<const __m256i*>(a) + k);
  for (int l = 0; l < kLanes; l += 8) {
    const __m256i index = _mm256_load_si256(reinterpret_cast<const __m256i*>(source + l));
    // Bits 3 and 4 of the lane choose the part; a blend looks at the sign bit.
    const __m256 bit3 = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));
    const __m256 bit4 = _mm256_castsi256_ps(_mm256_slli_epi32(index, 27));
    const auto from = [&](int k) LANE_LAMBDA {
      return _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(part[k], index));
    };
    const __m256 first = _mm256_blendv_ps(from(0), from(1), bit3);
    const __m256 second = _mm256_blendv_ps(from(2), from(3), bit3);
    _mm256_store_ps(reinterpret_cast<float*>(d + l), _mm256_blendv_ps(first, second, bit4));
  }
#else
  alignas(64) u32 value[kLanes];  // d may be a
  for (int l = 0; l < kLanes; ++l) value[l] = a[source[l]];
  for (int l = 0; l < kLanes; ++l) d[l] = value[l];
#endif
}

enum Direction : u32 { kUp, kDown, kButterfly, kIndex };

/// Where each lane reads from, itself if that is out of its range; all ones where it is within.
template <Direction direction>
LANE_INLINE void find_sources(const u32* b, const u32* c, u32* source, s32* inside) {
  for (u32 l = 0; l < kLanes; ++l) {
    const u32 distance = b[l] & 31, segment = c[l] >> 8 & 31, clamp = c[l] & 31;
    const u32 first = l & segment;
    const u32 last = first | (clamp & ~segment);
    const u32 lane = direction == kUp          ? l - distance
                     : direction == kDown      ? l + distance
                     : direction == kButterfly ? l ^ distance
                                               : first | (distance & ~segment);
    // Signed: lanes beyond the first are negative.
    const bool ok = direction == kUp ? s32(lane) >= s32(last) : s32(lane) <= s32(last);
    source[l] = ok ? lane & 31 : l;
    inside[l] = ok ? -1 : 0;
  }
}

/// r[1] value, r[2] distance, r[3] clamp and segment, r[4] members; r[5] the predicate "in range", if imm
/// says so.
template <Direction direction>
LANE_INLINE const Instr* exchange(Warp& w, const Instr* i, u32 mask) {
  alignas(64) u32 source[kLanes];
  alignas(64) s32 inside[kLanes];
  find_sources<direction>(lanes<u32>(w, i->r[2]), lanes<u32>(w, i->r[3]), source, inside);
  if (mask == kAllLanes) {
    gather(lanes<u32>(w, i->r[0]), lanes<u32>(w, i->r[1]), source);
  } else {
    alignas(64) u32 value[kLanes];
    gather(value, lanes<u32>(w, i->r[1]), source);
    blend(lanes<u32>(w, i->r[0]), value, mask);
  }
  if (i->imm) set_predicate(w, i->r[5], sign_mask(inside), mask);
  return i + 1;
}

/// x: the direction
const Instr* shfl(Warp& w, const Instr* i) {
  const u32 mask = guarded_lanes(w, i);
  if (mask == 0) return i + 1;
  if (const Instr* elsewhere = await_members(w, i, mask, lanes<u32>(w, i->r[4]))) return elsewhere;
  switch (static_cast<Direction>(i->x)) {
    case kUp:
      return exchange<kUp>(w, i, mask);
    case kDown:
      return exchange<kDown>(w, i, mask);
    case kButterfly:
      return exchange<kButterfly>(w, i, mask);
    default:
      return exchange<kIndex>(w, i, mask);
  }
}

const Instr* bra(Warp& w, const Instr* i) {
  const u32 mask = guarded_lanes(w, i);
  if (mask == 0) return i + 1;
  if (mask == w.mask) {
    count_segment(w, i + 1);
    const Instr* target = i + i->imm;
    w.segment = target;
    if (i->imm < 0 && --w.fuel == 0) {
      w.stop = Stop::pause;
      w.resume = target;
      return stop_at();
    }
    return target;
  }
  return diverge(w, i, i + i->imm, mask);
}

const Instr* mov_pred(Warp& w, const Instr* i) {
  set_predicate(w, i->r[0], predicate(w, i->r[1]) ^ u32(i->imm), guarded_lanes(w, i));
  return i + 1;
}
const Instr* not_pred(Warp& w, const Instr* i) {
  set_predicate(w, i->r[0], ~predicate(w, i->r[1]), guarded_lanes(w, i));
  return i + 1;
}
/// imm: bit 0 negates the second operand
const Instr* and_pred(Warp& w, const Instr* i) {
  const u32 b = predicate(w, i->r[2]) ^ (0u - u32(i->imm & 1));
  set_predicate(w, i->r[0], predicate(w, i->r[1]) & b, guarded_lanes(w, i));
  return i + 1;
}
const Instr* or_pred(Warp& w, const Instr* i) {
  const u32 b = predicate(w, i->r[2]) ^ (0u - u32(i->imm & 1));
  set_predicate(w, i->r[0], predicate(w, i->r[1]) | b, guarded_lanes(w, i));
  return i + 1;
}
const Instr* xor_pred(Warp& w, const Instr* i) {
  const u32 b = predicate(w, i->r[2]) ^ (0u - u32(i->imm & 1));
  set_predicate(w, i->r[0], predicate(w, i->r[1]) ^ b, guarded_lanes(w, i));
  return i + 1;
}

/// A subtraction adds the complement, so its carry says that nothing was borrowed: nvcc's 128-bit division
/// reads it with addc after sub.cc.
template <class T, bool subtract>
LANE_INLINE const Instr* with_carry(Warp& w, const Instr* i) {
  const u32 mask = guarded_lanes(w, i);
  const u32 before = predicate(w, kCarrySlot);
  const u32 carry_in = (i->imm & 1) ? (subtract ? ~before : before) : 0;
  const T* a = lanes<T>(w, i->r[1]);
  const T* b = lanes<T>(w, i->r[2]);
  alignas(64) T r[kLanes];
  alignas(64) s32 carry[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const T in = T(carry_in >> l & 1);
    if (subtract) {
      r[l] = T(a[l] - b[l] - in);
      carry[l] = (a[l] < b[l] || (a[l] == b[l] && in)) ? 0 : -1;
    } else {
      r[l] = T(a[l] + b[l] + in);
      carry[l] = (r[l] < a[l] || (in && r[l] == a[l])) ? -1 : 0;
    }
  }
  blend(lanes<T>(w, i->r[0]), r, mask);
  if (i->imm & 2) set_predicate(w, kCarrySlot, sign_mask(carry), mask);
  return i + 1;
}
const Instr* addc_b32(Warp& w, const Instr* i) {
  return with_carry<u32, false>(w, i);
}
const Instr* addc_b64(Warp& w, const Instr* i) {
  return with_carry<u64, false>(w, i);
}
const Instr* subc_b32(Warp& w, const Instr* i) {
  return with_carry<u32, true>(w, i);
}
const Instr* subc_b64(Warp& w, const Instr* i) {
  return with_carry<u64, true>(w, i);
}

/// All lanes get one number.
LANE_INLINE const Instr* broadcast(Warp& w, const Instr* i, u64 value) {
  const u32 mask = guarded_lanes(w, i);
  if (i->y == 8) {
    u64* d = lanes<u64>(w, i->r[0]);
    for (int l = 0; l < kLanes; ++l) d[l] = (mask >> l & 1) ? value : d[l];
  } else {
    u32* d = lanes<u32>(w, i->r[0]);
    for (int l = 0; l < kLanes; ++l) d[l] = (mask >> l & 1) ? u32(value) : d[l];
  }
  return i + 1;
}
const Instr* fill(Warp& w, const Instr* i) {
  return broadcast(w, i, u64(i->imm));
}
const Instr* kernel_param_address(Warp& w, const Instr* i) {
  return broadcast(w, i, reinterpret_cast<u64>(w.params) + u64(i->imm));
}
const Instr* frame_address(Warp& w, const Instr* i) {
  return broadcast(w, i, w.local_base + u64(i->imm));
}
const Instr* activemask(Warp& w, const Instr* i) {
  return broadcast(w, i, w.mask);
}

const Instr* cvta_shared(Warp& w, const Instr* i) {
  const u64 base = reinterpret_cast<u64>(w.shared);
  return unary<u64, u64>(
      w, i, [base](u64 a) __attribute__((always_inline)) { return a + base; });
}
const Instr* cvta_to_shared(Warp& w, const Instr* i) {
  const u64 base = reinterpret_cast<u64>(w.shared);
  return unary<u64, u64>(
      w, i, [base](u64 a) __attribute__((always_inline)) { return a - base; });
}
const Instr* cvta_local(Warp& w, const Instr* i) {
  return unary<u64, u64>(
      w, i, [](u64 a) __attribute__((always_inline)) { return a + kLocalWindow; });
}
const Instr* cvta_to_local(Warp& w, const Instr* i) {
  return unary<u64, u64>(
      w, i, [](u64 a) __attribute__((always_inline)) { return a - kLocalWindow; });
}
/// x: the space
const Instr* isspacep(Warp& w, const Instr* i) {
  const u64* a = lanes<u64>(w, i->r[1]);
  u32 bits = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    const bool shared = in_shared(w, a[l]);
    const bool local = in_local(a[l]);
    const bool param = a[l] - reinterpret_cast<u64>(w.params) < w.param_bytes;
    bool is = false;
    switch (static_cast<Space>(i->x)) {
      case Space::shared:
        is = shared;
        break;
      case Space::local:
        is = local;
        break;
      case Space::param:
        is = param;
        break;
      case Space::global:
        is = !shared && !local && !param;
        break;
      default:
        break;
    }
    bits |= u32(is) << l;
  }
  set_predicate(w, i->r[0], bits, guarded_lanes(w, i));
  return i + 1;
}

struct alignas(16) u128_lane {
  u64 low, high;
};
const Instr* mov_b128(Warp& w, const Instr* i) {
  const u32 mask = guarded_lanes(w, i);
  for (u32 l = 0; l < kLanes; ++l)
    if (mask >> l & 1) lanes<u128_lane>(w, i->r[0])[l] = lanes<u128_lane>(w, i->r[1])[l];
  return i + 1;
}
const Instr* pack_b128(Warp& w, const Instr* i) {
  const u32 mask = guarded_lanes(w, i);
  for (u32 l = 0; l < kLanes; ++l)
    if (mask >> l & 1)
      lanes<u128_lane>(w, i->r[0])[l] = {lanes<u64>(w, i->r[1])[l], lanes<u64>(w, i->r[2])[l]};
  return i + 1;
}
/// r[0], r[4]: low and high word
const Instr* unpack_b128(Warp& w, const Instr* i) {
  const u32 mask = guarded_lanes(w, i);
  for (u32 l = 0; l < kLanes; ++l)
    if (mask >> l & 1) {
      const u128_lane value = lanes<u128_lane>(w, i->r[1])[l];
      lanes<u64>(w, i->r[0])[l] = value.low;
      lanes<u64>(w, i->r[4])[l] = value.high;
    }
  return i + 1;
}
const Instr* nop(Warp&, const Instr* i) {
  return i + 1;
}

}  // namespace

void install_shuffle(Handler* handlers) {
#define INSTALL(name) handlers[static_cast<int>(Op::name)] = name
  INSTALL(shfl);
  INSTALL(bra);
  INSTALL(mov_pred);
  INSTALL(not_pred);
  INSTALL(and_pred);
  INSTALL(or_pred);
  INSTALL(xor_pred);
  INSTALL(addc_b32);
  INSTALL(addc_b64);
  INSTALL(subc_b32);
  INSTALL(subc_b64);
  INSTALL(fill);
  INSTALL(kernel_param_address);
  INSTALL(frame_address);
  INSTALL(activemask);
  INSTALL(cvta_shared);
  INSTALL(cvta_to_shared);
  INSTALL(cvta_local);
  INSTALL(cvta_to_local);
  INSTALL(isspacep);
  INSTALL(mov_b128);
  INSTALL(pack_b128);
  INSTALL(unpack_b128);
  INSTALL(nop);
#undef INSTALL
}

const Instr* interpret(Warp& w, const Instr* i) {
  while (i < w.limit) {
    w.current = i;
    i = i->fn(w, i);
  }
  return i;
}

}  // namespace sandbox::ptx::SIMD_NAMESPACE

// The reduction loops: one template over an element policy and an operation.
#include "sandbox/nccl/reduce.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "sandbox/nccl/types.h"

namespace sandbox::nccl {
namespace {

// An element policy names the stored type, the type of arithmetic, and the way between them.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};
struct Half {
  using Stored = uint16_t;
  using Value = float;
  static Value load(Stored stored) { return float_from_half(stored); }
  static Stored store(Value value) { return half_from_float(value); }
};
struct Bfloat16 {
  using Stored = uint16_t;
  using Value = float;
  static Value load(Stored stored) { return float_from_bfloat16(stored); }
  static Stored store(Value value) { return bfloat16_from_float(value); }
};
template <bool kE5M2>
struct Float8 {
  using Stored = uint8_t;
  using Value = float;
  static Value load(Stored stored) { return float_from_fp8(stored, kE5M2); }
  static Stored store(Value value) { return fp8_from_float(value, kE5M2); }
};

template <class Function>
void with_element(ncclDataType_t type, Function&& function) {
  switch (type) {
    case ncclInt8:
      return function(Plain<int8_t>{});
    case ncclUint8:
      return function(Plain<uint8_t>{});
    case ncclInt32:
      return function(Plain<int32_t>{});
    case ncclUint32:
      return function(Plain<uint32_t>{});
    case ncclInt64:
      return function(Plain<int64_t>{});
    case ncclUint64:
      return function(Plain<uint64_t>{});
    case ncclFloat16:
      return function(Half{});
    case ncclFloat32:
      return function(Plain<float>{});
    case ncclFloat64:
      return function(Plain<double>{});
    case ncclBfloat16:
      return function(Bfloat16{});
    case ncclFloat8e4m3:
      return function(Float8<false>{});
    case ncclFloat8e5m2:
      return function(Float8<true>{});
    default:
      return;
  }
}

// Integers wrap around: signed arithmetic goes through the unsigned type.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

// As the GPU's: the number wins over a NaN.
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return a > b ? a : b;
  else
    return std::fmax(a, b);
}

template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return a < b ? a : b;
  else
    return std::fmin(a, b);
}

template <class Element>
typename Element::Value factor_value(uint64_t bits) {
  typename Element::Stored stored;
  std::memcpy(&stored, &bits, sizeof stored);
  return Element::load(stored);
}

// Sources may be misaligned for their type (NCCL takes any address), hence the byte-wise loads.
template <class Element, class Combine>
void combine(void* accumulator, const void* source, size_t count, Combine&& operation) {
  using Stored = typename Element::Stored;
  auto* target = static_cast<std::byte*>(accumulator);
  const auto* input = static_cast<const std::byte*>(source);
  for (size_t i = 0; i < count; ++i) {
    Stored a;
    Stored b;
    std::memcpy(&a, target + i * sizeof(Stored), sizeof a);
    std::memcpy(&b, input + i * sizeof(Stored), sizeof b);
    a = Element::store(operation(Element::load(a), Element::load(b)));
    std::memcpy(target + i * sizeof(Stored), &a, sizeof a);
  }
}

}  // namespace

void reduce_first(ncclDataType_t type, ReduceKind kind, void* accumulator, const void* source, size_t count,
                  uint64_t factor) {
  if (kind != ReduceKind::scaled_sum) {
    std::memmove(accumulator, source, count * size_of(type));
    return;
  }
  with_element(type, [&]<class Element>(Element) {
    const auto scale = factor_value<Element>(factor);
    combine<Element>(accumulator, source, count, [scale](auto, auto b) { return multiply(b, scale); });
  });
}

void reduce_next(ncclDataType_t type, ReduceKind kind, void* accumulator, const void* source, size_t count,
                 uint64_t factor) {
  with_element(type, [&]<class Element>(Element) {
    const auto run = [&](auto operation) { combine<Element>(accumulator, source, count, operation); };
    switch (kind) {
      case ReduceKind::sum:
      case ReduceKind::sum_then_divide:
        return run([](auto a, auto b) { return add(a, b); });
      case ReduceKind::prod:
        return run([](auto a, auto b) { return multiply(a, b); });
      case ReduceKind::max:
        return run([](auto a, auto b) { return larger(a, b); });
      case ReduceKind::min:
        return run([](auto a, auto b) { return smaller(a, b); });
      case ReduceKind::scaled_sum: {
        // The scaled contribution is rounded to the type before it is added.
        const auto scale = factor_value<Element>(factor);
        return run(
            [scale](auto a, auto b) { return add(a, Element::load(Element::store(multiply(b, scale)))); });
      }
    }
  });
}

void reduce_finish(ncclDataType_t type, ReduceKind kind, void* accumulator, size_t count, int ranks) {
  if (kind != ReduceKind::sum_then_divide) return;
  with_element(type, [&]<class Element>(Element) {
    using Value = typename Element::Value;
    if constexpr (std::is_integral_v<Value>) {
      const auto divisor = static_cast<int64_t>(ranks);
      combine<Element>(accumulator, accumulator, count, [divisor](Value a, Value) {
        if constexpr (std::is_signed_v<Value>)
          return static_cast<Value>(static_cast<int64_t>(a) / divisor);
        else
          return static_cast<Value>(static_cast<uint64_t>(a) / static_cast<uint64_t>(divisor));
      });
    }
  });
}

uint64_t reciprocal_bits(ncclDataType_t type, int ranks) {
  uint64_t bits = 0;
  with_element(type, [&]<class Element>(Element) {
    using Value = typename Element::Value;
    if constexpr (std::is_floating_point_v<Value>) {
      const typename Element::Stored stored =
          Element::store(static_cast<Value>(1) / static_cast<Value>(ranks));
      std::memcpy(&bits, &stored, sizeof stored);
    }
  });
  return bits;
}

}  // namespace sandbox::nccl

// The element types that are measured: their names, their sizes, and how they round.
#include "element.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>
#include <cstring>

namespace collectives {
namespace {

constexpr std::array kTypes{
    ElementType{"float", "fp32", ncclFloat32, 4},
    ElementType{"half", "fp16", ncclFloat16, 2},
    ElementType{"bfloat16", "bf16", ncclBfloat16, 2},
};

struct Float {
  using Stored = float;
  static Stored store(float value) { return value; }
  static float load(Stored stored) { return stored; }
};

struct Half {
  using Stored = __half;
  static Stored store(float value) { return __float2half_rn(value); }
  static float load(Stored stored) { return __half2float(stored); }
};

struct Bfloat16 {
  using Stored = __nv_bfloat16;
  static Stored store(float value) { return __float2bfloat16_rn(value); }
  static float load(Stored stored) { return __bfloat162float(stored); }
};

template <typename Format>
void round_as(std::span<float> values, std::byte* packed) {
  for (float& value : values) {
    const typename Format::Stored stored = Format::store(value);
    std::memcpy(packed, &stored, sizeof stored);
    packed += sizeof stored;
    value = Format::load(stored);
  }
}

template <typename Format>
void widen_as(const std::byte* packed, std::span<float> values) {
  for (float& value : values) {
    typename Format::Stored stored;
    std::memcpy(&stored, packed, sizeof stored);
    packed += sizeof stored;
    value = Format::load(stored);
  }
}

}  // namespace

std::span<const ElementType> element_types() {
  return kTypes;
}

void round_to(const ElementType& type, std::span<float> values, std::span<std::byte> packed) {
  switch (type.nccl_type) {
    case ncclFloat16:
      return round_as<Half>(values, packed.data());
    case ncclBfloat16:
      return round_as<Bfloat16>(values, packed.data());
    default:
      return round_as<Float>(values, packed.data());
  }
}

void widen(const ElementType& type, std::span<const std::byte> packed, std::span<float> values) {
  switch (type.nccl_type) {
    case ncclFloat16:
      return widen_as<Half>(packed.data(), values);
    case ncclBfloat16:
      return widen_as<Bfloat16>(packed.data(), values);
    default:
      return widen_as<Float>(packed.data(), values);
  }
}

}  // namespace collectives

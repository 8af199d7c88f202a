// Tables of the element types and the 8-bit floats.
#include "sandbox/nccl/types.h"

#include <array>

namespace sandbox::nccl {
namespace {

struct TypeRow {
  size_t bytes;
  const char* name;
  bool is_float;
};

constexpr std::array<TypeRow, ncclNumTypes> kTypes = {{{1, "int8", false},
                                                       {1, "uint8", false},
                                                       {4, "int32", false},
                                                       {4, "uint32", false},
                                                       {8, "int64", false},
                                                       {8, "uint64", false},
                                                       {2, "half", true},
                                                       {4, "float", true},
                                                       {8, "double", true},
                                                       {2, "bfloat16", true},
                                                       {1, "f8e4m3", true},
                                                       {1, "f8e5m2", true}}};

std::array<float, 256> decode_table(bool e5m2) {
  std::array<float, 256> table{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    const __half_raw half =
        __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), e5m2 ? __NV_E5M2 : __NV_E4M3);
    table[bits] = float_from_half(half.x);
  }
  return table;
}

}  // namespace

bool is_type(ncclDataType_t type) {
  return static_cast<unsigned>(type) < kTypes.size();
}
size_t size_of(ncclDataType_t type) {
  return kTypes[static_cast<size_t>(type)].bytes;
}
const char* name_of(ncclDataType_t type) {
  return is_type(type) ? kTypes[static_cast<size_t>(type)].name : "unknown type";
}
bool is_float(ncclDataType_t type) {
  return kTypes[static_cast<size_t>(type)].is_float;
}

float float_from_fp8(uint8_t bits, bool e5m2) {
  static const std::array<float, 256> tables[2] = {decode_table(false), decode_table(true)};
  return tables[e5m2 ? 1 : 0][bits];
}

uint8_t fp8_from_float(float value, bool e5m2) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, e5m2 ? __NV_E5M2 : __NV_E4M3);
}

}  // namespace sandbox::nccl

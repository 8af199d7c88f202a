// Keys to data, and doubles to elements and back; see values.h.
#include "values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sdp4bit::model {
namespace {

struct Format {
  int precision;  // bits of the significand, the hidden one included
  int smallest;   // exponent of the smallest normal number
  double largest;
};

Format format_of(ncclDataType_t type) {
  switch (type) {
    case ncclBfloat16:
      return {8, -126, 0x1.fep127};
    case ncclFloat16:
      return {11, -14, 65504.0};
    case ncclFloat64:
      return {53, -1022, std::numeric_limits<double>::max()};
    default:
      return {24, -126, static_cast<double>(std::numeric_limits<float>::max())};
  }
}

bool is_integer(ncclDataType_t type) {
  return type == ncclInt32 || type == ncclInt8;
}

/// Exponent of the distance between neighbours around `value`.
int unit_exponent(const Format& format, double value) {
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  return std::max(exponent - 1, format.smallest) - (format.precision - 1);
}

std::uint16_t float16_bits(double value) {
  if (std::isnan(value)) return 0x7e00;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (magnitude > 65504.0) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 0x1p-14)
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(magnitude * 0x1p24));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [1/2, 1)
  const auto bits = static_cast<std::uint32_t>((fraction * 2 - 1) * 1024) +
                    static_cast<std::uint32_t>(exponent + 14) * 1024;
  return static_cast<std::uint16_t>(sign | bits);
}

double float16_value(std::uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  if (exponent == 31)
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <typename T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double element(const Call& call, std::uint64_t key, std::size_t index) {
  constexpr std::size_t kPatch = 200;  // not a multiple of any group, so that groups are mixed too
  const std::uint64_t own = mix(key, index);
  switch (call.data) {
    case Data::whole:
      return std::floor(uniform(own) * 17) - 8;
    case Data::normal:
      return normal(own);
    case Data::sparse:
      return mix(key, ~(index / kPatch)) % 2 ? normal(own) : 0.0;
    case Data::large:
      return normal(own) * (call.type == ncclFloat16 ? 1000.0 : 1e30);
  }
  return 0;
}

constexpr double kSize = 0.02;  // of weights

/// What a weight of 1 is in its type: integers would all be zero.
double unit_of(ncclDataType_t type) {
  return is_integer(type) ? 500 : 1;
}

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

double uniform(std::uint64_t key) {
  return static_cast<double>(mix(key, 1) >> 11) * 0x1p-53;
}

double normal(std::uint64_t key) {
  const std::uint64_t bits = mix(key, 2);
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>(bits >> 16 * i & 0xffff) * 0x1p-16;
  return (sum - 2) * 1.7320508;
}

double rounded(ncclDataType_t type, double value) {
  if (is_integer(type)) return std::nearbyint(value);
  if (!std::isfinite(value) || value == 0) return value;
  const Format format = format_of(type);
  const int unit = unit_exponent(format, value);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::abs(result) > format.largest ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                           : result;
}

double half_ulp(ncclDataType_t type, double value) {
  if (is_integer(type)) return 0;
  return std::ldexp(0.5, unit_exponent(format_of(type), value));
}

void store(ncclDataType_t type, std::byte* at, double value) {
  switch (type) {
    case ncclFloat64:
      return put(at, value);
    case ncclFloat16:
      return put(at, float16_bits(value));
    case ncclBfloat16: {
      if (std::isnan(value)) return put(at, std::uint16_t{0x7fc0});
      const auto narrow = static_cast<float>(value);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &narrow, sizeof bits);
      return put(at, static_cast<std::uint16_t>(bits >> 16));
    }
    case ncclInt32:
      return put(at, static_cast<std::int32_t>(value));
    case ncclInt8:
      return put(at, static_cast<std::int8_t>(value));
    default:
      return put(at, static_cast<float>(value));
  }
}

double load(ncclDataType_t type, const std::byte* at) {
  switch (type) {
    case ncclFloat64:
      return get<double>(at);
    case ncclFloat16:
      return float16_value(get<std::uint16_t>(at));
    case ncclBfloat16: {
      const std::uint32_t bits = std::uint32_t{get<std::uint16_t>(at)} << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return static_cast<double>(value);
    }
    case ncclInt32:
      return get<std::int32_t>(at);
    case ncclInt8:
      return get<std::int8_t>(at);
    default:
      return static_cast<double>(get<float>(at));
  }
}

void store_all(ncclDataType_t type, std::byte* at, const Values& values) {
  const std::size_t bytes = bytes_of(type);
  for (const double value : values) store(type, std::exchange(at, at + bytes), value);
}

Values load_all(ncclDataType_t type, const std::byte* at, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = load(type, at + i * bytes_of(type));
  return values;
}

bool same(const Values& a, const Values& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

std::size_t bad_place(const Call& call, std::size_t count) {
  return mix(call.key, 77) % count;
}

Values input_of(const Call& call, std::uint64_t repeat, int rank, std::size_t count) {
  Values values(count);
  const std::uint64_t key = mix(mix(call.key, repeat), static_cast<std::uint64_t>(rank));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = rounded(call.type, element(call, key, i));
  if (call.bad_rank == rank && !values.empty()) {
    values[bad_place(call, values.size())] = std::numeric_limits<double>::quiet_NaN();
  }
  return values;
}

Master::Master(std::uint64_t seed, int weight, int rank, std::size_t count)
    : key_(mix(seed, static_cast<std::uint64_t>(weight) + 1000)), rank_(rank), values_(count) {
  const std::uint64_t key = mix(key_, static_cast<std::uint64_t>(rank));
  for (std::size_t i = 0; i < count; ++i) values_[i] = kSize * normal(mix(key, i));
}

double Master::change(const Call& call, std::size_t element) const {
  if (call.drift == 0) return 0;
  const std::uint64_t key = mix(mix(key_, call.key), static_cast<std::uint64_t>(rank_));
  return call.drift * kSize * normal(mix(key, element));
}

void Master::walk(const Call& call) {
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += change(call, i);
}

void Master::reload(const Step& step) {
  const std::uint64_t key = mix(mix(key_, step.key), static_cast<std::uint64_t>(rank_) + 500);
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = 1.5 * kSize * normal(mix(key, i));
}

Values Master::shard(const Weight& weight, const Call& call) const {
  Values result(values_.size());
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = rounded(weight.type, values_[i] * unit_of(weight.type));
  if (call.bad_rank == rank_ && !result.empty()) {
    result[bad_place(call, result.size())] = std::numeric_limits<double>::quiet_NaN();
  }
  return result;
}

Values Master::moved_on(const Weight& weight, const Call& call, Values shard) const {
  for (std::size_t i = 0; i < shard.size(); ++i)
    shard[i] = rounded(weight.type, shard[i] + change(call, i) * unit_of(weight.type));
  return shard;
}

}  // namespace sdp4bit::model

// What buffers hold: data as functions of keys, and element types in double arithmetic of the test's own.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program.h"

namespace sdp4bit::model {

using Values = std::vector<double>;

[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b);
/// Uniform in [0, 1), and roughly normal of variance 1.
[[nodiscard]] double uniform(std::uint64_t key);
[[nodiscard]] double normal(std::uint64_t key);

/// To the nearest value of the type, ties to even; integers wrap nothing, for none are that large.
[[nodiscard]] double rounded(ncclDataType_t type, double value);
/// Half of the distance between neighbours of the type around `value`; 0 for integers.
[[nodiscard]] double half_ulp(ncclDataType_t type, double value);
void store(ncclDataType_t type, std::byte* at, double value);  // a rounded value
[[nodiscard]] double load(ncclDataType_t type, const std::byte* at);
void store_all(ncclDataType_t type, std::byte* at, const Values& values);
[[nodiscard]] Values load_all(ncclDataType_t type, const std::byte* at, std::size_t count);

/// A NaN is the same as another.
[[nodiscard]] bool same(const Values& a, const Values& b);

/// The `count` elements that a rank gives to a call that is no AllGather; `repeat`: which replay.
[[nodiscard]] Values input_of(const Call& call, std::uint64_t repeat, int rank, std::size_t count);
/// Place of the NaN of a call with a bad rank, in its input of `count` elements.
[[nodiscard]] std::size_t bad_place(const Call& call, std::size_t count);

/// The optimizer's copy of one rank's shard of a weight.
class Master {
 public:
  Master(std::uint64_t seed, int weight, int rank, std::size_t count);
  void walk(const Call& call);
  void reload(const Step& step);
  /// What the rank gathers, rounded to the type.
  [[nodiscard]] Values shard(const Weight& weight, const Call& call) const;
  /// The same where the shard itself is the only copy: the walk's step from what it holds.
  [[nodiscard]] Values moved_on(const Weight& weight, const Call& call, Values shard) const;

 private:
  [[nodiscard]] double change(const Call& call, std::size_t element) const;

  std::uint64_t key_;
  int rank_;
  Values values_;
};

}  // namespace sdp4bit::model

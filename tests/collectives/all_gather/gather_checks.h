// What nearly every test of gathers asks for.
#pragma once

#include <cstdint>
#include <string>

#include "catch.h"
#include "gather_job.h"

namespace sdp4bit::test {

inline constexpr std::uint64_t kBeforeHandshake = 3;  // calls until the group that reads it
inline constexpr std::uint64_t kLearning = 8;  // class calls until differences, with one or two buffers

inline void require_agreement(const GatherJob& job, const GatherResult& result) {
  INFO(job.nodes << " nodes x " << job.local_ranks);
  REQUIRE(result.failure == "");
  REQUIRE(disagreement(result) == "");
}

inline void require_compressed(const GatherResult& result, std::uint64_t expected) {
  for (const CallCounts& calls : result.calls) REQUIRE(calls.compressed == expected);
}

inline std::uint64_t all_but_learning(const GatherJob& job, std::uint64_t before = kBeforeHandshake) {
  return static_cast<std::uint64_t>(job.steps * job.buffers) - before - kLearning;
}

inline std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++count;
  return count;
}

}  // namespace sdp4bit::test

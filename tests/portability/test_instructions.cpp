// What old GPUs do in several instructions has the bits of the one instruction that newer ones have.
#include "instructions.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "../kernels/device_bytes.h"
#include "catch.h"

using namespace sdp4bit::test;

namespace {

using Ask = void (*)(Answers*, const Triple*, std::size_t);

std::vector<Answers> answers_of(Ask ask, std::vector<Triple> triples) {
  triples.resize((triples.size() + 31) / 32 * 32);
  const DeviceBytes questions(triples);
  const DeviceBytes answers(triples.size() * sizeof(Answers), std::byte{0x5a});
  ask(answers.as<Answers>(), questions.as<Triple>(), triples.size());
  require_success(cudaGetLastError());
  require_success(cudaDeviceSynchronize());
  const Bytes bytes = answers.download();
  std::vector<Answers> result(triples.size());
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

void require_same(const std::vector<Triple>& triples) {
  const std::vector<Answers> oldest = answers_of(ask_oldest, triples), newer = answers_of(ask_newer, triples);
  REQUIRE(oldest.size() >= triples.size());
  const auto differs = std::mismatch(oldest.begin(), oldest.end(), newer.begin()).first - oldest.begin();
  if (static_cast<std::size_t>(differs) == oldest.size()) return;
  const Triple& asked = triples[static_cast<std::size_t>(differs)];
  const Answers &one = oldest[static_cast<std::size_t>(differs)],
                &other = newer[static_cast<std::size_t>(differs)];
  INFO(std::hex << "asked " << asked.a << ' ' << asked.b << ' ' << asked.c);
  CHECK(one.multiply_add == other.multiply_add);
  CHECK(one.largest == other.largest);
  CHECK(one.smallest == other.smallest);
  CHECK(one.bfloat16 == other.bfloat16);
  CHECK(one.float16 == other.float16);
  CHECK(one.float16_towards_zero == other.float16_towards_zero);
  CHECK(one.largest_float == other.largest_float);
  CHECK(one.smallest_float == other.smallest_float);
  CHECK(one.largest_of_warp == other.largest_of_warp);
  FAIL("the answers differ");
}

}  // namespace

TEST_CASE("Instructions.OldGpusAnswerAlikeForSpecialNumbers") {
  // Halves are bfloat16: zeros, subnormals, ends of the range, ones and their neighbours, infinities, NaN.
  const std::vector<std::uint32_t> halves = {0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080,
                                             0x8080, 0x3f7f, 0x3f80, 0xbf80, 0x3f81, 0x7f7f,
                                             0xff7f, 0x7f80, 0xff80, 0x7f81, 0x7fff, 0xffc0};
  std::vector<Triple> triples;
  for (const std::uint32_t a : halves) {
    for (const std::uint32_t b : halves) {
      for (const std::uint32_t c : halves) triples.push_back({a | b << 16, b | c << 16, c | a << 16});
    }
  }
  // Floats around what float16 and bfloat16 can hold, and halfway between two of them.
  for (const std::uint32_t near :
       {0x33000000u, 0x38800000u, 0x3f800000u, 0x3f801000u, 0x3f808000u, 0x477fe000u, 0x477ff000u,
        0x47800000u, 0x7f7f8000u, 0x7f7fffffu, 0x7f800000u, 0x00008000u}) {
    for (std::uint32_t step = 0; step < 5; ++step) {
      const std::uint32_t bits = near + step - 2;
      triples.push_back({bits, bits | 0x80000000u, near});
    }
  }
  require_same(triples);
}

TEST_CASE("Instructions.OldGpusRoundAMultiplyAddOnce") {
  // Products of two significands of 8 bits are often halfway between two bfloat16, and what is then added
  // decides.
  std::mt19937 random(7);
  const auto half = [&](std::uint32_t least_exponent, std::uint32_t exponents) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random());
    return (bits & 0x807fu) | (least_exponent + (bits >> 16) % exponents) << 7;
  };
  std::vector<Triple> triples;
  for (unsigned i = 0; i < 1u << 16; ++i) {
    const bool tiny = i % 2 == 0;
    const auto pair = [&](std::uint32_t least, std::uint32_t exponents) {
      const std::uint32_t low = half(least, exponents);
      return low | half(least, exponents) << 16;
    };
    const std::uint32_t a = pair(120, 10), b = pair(120, 10);
    triples.push_back({a, b, tiny ? pair(1, 60) : pair(118, 14)});
  }
  require_same(triples);
}

TEST_CASE("Instructions.OldGpusAnswerAlikeForAnyBits") {
  std::mt19937 random(8);
  std::vector<Triple> triples(1u << 16);
  for (Triple& triple : triples)
    triple = {static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random()),
              static_cast<std::uint32_t>(random())};
  require_same(triples);
}

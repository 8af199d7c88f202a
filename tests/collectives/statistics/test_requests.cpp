// What a program may ask of the library: hints and resets are heard where all ranks ask, and nowhere else.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "gradient_case.h"
#include "kernels/element.h"
#include "statistics.h"

namespace sdp4bit::test {
namespace {

constexpr std::size_t kCount = 3000;
const GradientCase kGradient{.type = ElementType::bfloat16, .count = kCount};
const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
/// Takes no communicator by its name.
const Environment kNone{{"SDP4BIT_COMMS", "name:nobody"}, {"SDP4BIT_MIN_BYTES", "0"}};

class Weights {
 public:
  explicit Weights(RankContext& rank) : rank_(rank), buffer_(content(rank.ranks)) {}
  void gather(int times) {
    std::byte* const own = buffer_.data() + static_cast<std::size_t>(rank_.rank) * kCount * 2;
    for (int i = 0; i < times; ++i) {
      check(ncclAllGather(own, buffer_.data(), kCount, ncclBfloat16, rank_.comm, rank_.stream));
      check(cudaStreamSynchronize(rank_.stream));
    }
  }

 private:
  static Bytes content(int ranks) {
    Bytes bytes(static_cast<std::size_t>(ranks) * kCount * 2);
    for (std::size_t i = 0; i < bytes.size() / 2; ++i) {
      const BFloat16 value = from_float<BFloat16>(std::sin(static_cast<float>(i)));
      bytes[2 * i] = static_cast<std::byte>(value.bits & 0xff);
      bytes[2 * i + 1] = static_cast<std::byte>(value.bits >> 8);
    }
    return bytes;
  }
  RankContext& rank_;
  DeviceBytes buffer_;
};

std::uint64_t compressed(ncclComm_t comm, const char* collective) {
  return statistics(comm, collective).compressed_calls;
}

}  // namespace

TEST_CASE("Requests.AHintOfAllRanksSaysWhatACommunicatorCarries") {
  for (const unsigned carries : {0u, 1u, 2u, 3u}) {
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 1), .environment = kNone}, [&](RankContext& rank) {
          expect(library().hint(rank.comm, carries) == 0, "the hint is taken");
          engage(rank);
          expect(library().hint(rank.comm, carries) == 1, "after the first call it is too late");
          (void)run_gradient(rank, kGradient);
          Weights weights(rank);
          weights.gather(12);
          const bool gradients = carries & SDP4BIT_CARRIES_GRADIENTS,
                     others = carries & SDP4BIT_CARRIES_WEIGHTS;
          expect_equal(compressed(rank.comm, "reduce_scatter"), gradients ? 1 : 0, "gradients");
          expect((compressed(rank.comm, "all_gather") > 0) == others, "weights");
          const char* const native = carries == 0 ? "agreement_off" : "hinted_otherwise";
          if (!gradients)
            expect(why(rank.comm, "reduce_scatter").starts_with(native), why(rank.comm, "reduce_scatter"));
          if (!others) expect(why(rank.comm, "all_gather").starts_with(native), why(rank.comm, "all_gather"));
        });
    INFO("carries " << carries);
    CHECK(failures(outcomes) == "");
  }
}

TEST_CASE("Requests.AHintOfOneRankChangesNothing") {
  for (const Environment& environment : {kNone, kAll}) {
    const bool taken = &environment == &kAll || environment == kAll;
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 1), .environment = environment}, [&](RankContext& rank) {
          // Where nobody is taken it asks to be; where all are, it says that there is nothing to take.
          if (rank.rank == 1) expect(library().hint(rank.comm, taken ? 0u : 3u) == 0, "a hint");
          engage(rank);
          (void)run_gradient(rank, kGradient);
          expect_equal(compressed(rank.comm, "reduce_scatter"), taken ? 1 : 0, "gradients");
        });
    CHECK(failures(outcomes) == "");
  }
}

TEST_CASE("Requests.WrongHintsAreRefused") {
  const auto outcomes = run_cluster({.node_of = {0}, .environment = kAll}, [&](RankContext& rank) {
    expect(library().hint(nullptr, 1) == -1, "no communicator");
    expect(library().hint(rank.comm, 4) == -1, "nothing that is carried");
    expect(library().reset_weights(nullptr) == -1, "no communicator to reset");
  });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Requests.AResetOfAllRanksLeadsBackToLearning") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [&](RankContext& rank) {
        Weights weights(rank);
        weights.gather(20);
        const std::uint64_t before = compressed(rank.comm, "all_gather");
        expect(why(rank.comm, "all_gather") == "compressed", why(rank.comm, "all_gather"));
        if (rank.rank != 2) expect(library().reset_weights(rank.comm) == 0, "asked");
        weights.gather(10);
        expect_equal(compressed(rank.comm, "all_gather"), before + 10, "while one rank does not ask");
        if (rank.rank == 2) expect(library().reset_weights(rank.comm) == 0, "asked");
        weights.gather(4);
        expect_equal(compressed(rank.comm, "all_gather"), before + 14, "until the flag has been read");
        weights.gather(8);
        expect_equal(compressed(rank.comm, "all_gather"), before + 14, "learning again");
        const std::string text = why(rank.comm, "all_gather");
        expect(text.starts_with("weight_native: 3000 elements learning ("), text);
        weights.gather(6);
        expect_equal(compressed(rank.comm, "all_gather"), before + 20, "learnt again, and asked no more");
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Requests.SampledErrorsAreThoseOfTheFormat") {
  Environment environment = kAll;
  environment.emplace_back("SDP4BIT_PRESET", "paper");
  environment.emplace_back("SDP4BIT_SAMPLE_ERROR", "3");
  environment.emplace_back("SDP4BIT_WORKSPACE", "16K");  // several chunks
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = environment}, [&](RankContext& rank) {
        engage(rank);
        for (int i = 0; i < 7; ++i) (void)run_gradient(rank, kGradient);
        std::string text(library().statistics_json(nullptr, 0), '\0');
        library().statistics_json(text.data(), text.size() + 1);
        const auto number = [&](const char* object, const char* field) {
          const std::size_t at = text.find(std::string("\"") + object + "\"");
          const std::size_t value = text.find(std::string("\"") + field + "\": ", at);
          expect(at != std::string::npos && value != std::string::npos, object);
          return std::stod(text.substr(text.find(' ', value)));
        };
        expect(number("gradient_first_exchange", "samples") == 2, "calls 3 and 6 are sampled");
        expect(number("gradient_between_nodes", "samples") == 2, "on both stages");
        // Relative squared errors of stochastic rounding with 4 and 8 bits in groups of 128: 0.028 and
        // 0.00009.
        for (const char* field : {"last", "mean"}) {
          const double inner = number("gradient_first_exchange", field),
                       outer = number("gradient_between_nodes", field);
          expect(inner > 0.006 && inner < 0.013, "8 bits: " + std::to_string(inner));
          expect(outer > 0.14 && outer < 0.19, "4 bits: " + std::to_string(outer));
        }
        expect(number("weight_difference", "samples") == 0, "no weights");
        // The communicator's own entry also has each sample for itself.
        const std::size_t own = text.find("\"communicators\"");
        const std::size_t course = text.find("\"course\": [", text.find("\"gradient_between_nodes\"", own));
        expect(course != std::string::npos && text.find("\"course\"") > own, "a course, not in the sums");
        const std::string list = text.substr(course, text.find(']', course) - course);
        expect(std::count(list.begin(), list.end(), ',') == 1, "a point for each sample: " + list);
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace sdp4bit::test

// SDP4BIT_WEIGHT_DIRECT: a class of gathers that is given up while a buffer carries a probe's step is coded
// directly from then on, and the step is still taken out.
#include <memory>
#include <random>
#include <vector>

#include "catch.h"
#include "cluster.h"
#include "kernels/reference_codec.h"
#include "tests/collectives/statistics/statistics.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

constexpr std::size_t kCount = 500;
constexpr std::size_t kBuffers = 8;

/// Weights that move a little or are replaced, in buffers that all serve one class.
class Model {
 public:
  explicit Model(RankContext& rank) : rank_(rank), own_(static_cast<std::size_t>(rank.rank) * kCount * 2) {
    for (std::size_t b = 0; b < kBuffers; ++b) {
      shards_.push_back(fresh());
      received_.push_back(
          std::make_unique<DeviceBytes>(Bytes(kCount * 2 * static_cast<std::size_t>(rank.ranks))));
      sent_.push_back(std::make_unique<DeviceBytes>(kCount * 2));
    }
  }
  void replace(std::size_t b) { shards_[b] = fresh(); }
  void move(std::size_t b) {
    for (float& value : shards_[b]) value *= 1.0f + 0.01f * (uniform() - 0.5f);
  }
  void gather(std::size_t b) {
    sent_[b]->write(packed(b));
    gather_from(sent_[b]->data(), b);
  }
  void gather_in_place(std::size_t b) { gather_from(received_[b]->data() + own_, b); }
  void write_own(std::size_t b) { received_[b]->write(packed(b), own_); }
  [[nodiscard]] Bytes own_slice(std::size_t b) const {
    const Bytes all = received_[b]->read();
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(own_);
    return {first, first + kCount * 2};
  }
  [[nodiscard]] Bytes packed(std::size_t b) const {
    Bytes bytes(kCount * 2);
    for (std::size_t i = 0; i < kCount; ++i)
      reference::store_element(ElementType::bfloat16, bytes.data(), i, shards_[b][i]);
    return bytes;
  }

 private:
  std::vector<float> fresh() {
    std::vector<float> values(kCount);
    for (float& value : values) value = uniform() - 0.5f;
    return values;
  }
  void gather_from(const std::byte* send, std::size_t b) {
    check(ncclAllGather(send, received_[b]->data(), kCount, ncclBfloat16, rank_.comm, rank_.stream));
    check(cudaStreamSynchronize(rank_.stream));
  }
  float uniform() { return static_cast<float>(random_() & 0xffffffu) * 0x1p-24f; }

  RankContext& rank_;
  const std::size_t own_;
  std::mt19937 random_{static_cast<unsigned>(rank_.rank) + 1};
  std::vector<std::vector<float>> shards_;
  std::vector<std::unique_ptr<DeviceBytes>> received_, sent_;
};

/// Of the only class.
std::string stage() {
  std::string text(library().statistics_json(nullptr, 0), '\0');
  library().statistics_json(text.data(), text.size() + 1);
  const std::string name = "\"stage\":";
  const std::size_t begin = text.find('"', text.find(name) + name.size());
  return text.substr(begin + 1, text.find('"', begin + 1) - begin - 1);
}

TEST_CASE("OwnShard.AStepIsTakenOutWhereTheClassIsCodedDirectly") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1),
       .environment = {{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}, {"SDP4BIT_WEIGHT_DIRECT", "8"}}},
      [](RankContext& rank) {
        Model model(rank);
        constexpr int kLongest = 400;  // calls until something must have happened
        const auto learn = [&] {
          for (int call = 0; stage() != "difference"; ++call) {
            expect(call < kLongest, "the class is never in difference");
            const std::size_t b = static_cast<std::size_t>(call) % kBuffers;
            model.move(b);
            model.gather(b);
          }
        };
        /// All buffers but the first.
        const auto jump_until = [&](const char* wanted) {
          for (int call = 0; stage() != wanted; ++call) {
            expect(call < kLongest, std::string("the class is never in ") + wanted);
            const std::size_t b = 1 + static_cast<std::size_t>(call) % (kBuffers - 1);
            model.replace(b);
            model.gather(b);
          }
        };
        for (int i = 0; i < 3; ++i) model.gather(0);  // the handshake
        model.write_own(0);
        model.gather_in_place(0);  // a class that never is in place is one of replicas
        for (int i = 0; i < 2; ++i) {
          learn();
          jump_until("learning");
        }
        learn();
        // The first gather in place, of a shard that is the program's own copy, gets a step.
        model.move(0);
        model.write_own(0);
        model.gather_in_place(0);
        expect(stage() == "difference" && model.own_slice(0) != model.packed(0), "a step is under way");
        jump_until("native");
        const std::uint64_t before = calls_of("all_gather").compressed;
        model.gather_in_place(0);
        expect(calls_of("all_gather").compressed == before + 1, "coded directly");
        expect(model.own_slice(0) == model.packed(0), "the step was taken out");
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace

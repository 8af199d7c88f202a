// Fully sharded data parallelism: weights in fresh temporaries, gradients out of place.
#include <memory>

#include "trace.h"

using namespace sdp4bit::test;

namespace {

constexpr std::size_t kCount = 1024;  // of a layer's shard
constexpr int kLayers = 3;

enum class Memory { fresh, reused };

/// FSDP1 gathers out of place from the shard; FSDP2 and ZeRO-3 copy it into its slot of the temporary.
void unshard(Program& program, int layer, int step, bool in_place, Memory memory,
             std::vector<std::unique_ptr<DeviceBytes>>& kept) {
  // A caching allocator gives the next layer what the last one freed: the same address, other weights.
  if (memory == Memory::fresh || kept.empty())
    kept.push_back(std::make_unique<DeviceBytes>(program.ranks() * kCount * 2));
  const DeviceBytes& full = *kept.back();
  const DeviceBytes shard(kCount * 2);
  std::byte* const send =
      in_place ? full.data() + static_cast<std::size_t>(program.rank()) * kCount * 2 : shard.data();
  program.store_weights(send, kCount, layer, step);
  program.gather("weights", send, full.data(), kCount);
  program.check_weights(full.data(), kCount, layer, step, 0.0);  // native: exact
}

void train(Program& program, bool in_place, Memory memory, const std::function<void(int, int)>& reduce) {
  std::vector<std::unique_ptr<DeviceBytes>> kept;
  for (int step = 0; step < 8; ++step) {
    for (int layer = 0; layer < kLayers; ++layer) unshard(program, layer, step, in_place, memory, kept);
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      unshard(program, layer, step, in_place, memory, kept);
      if (reduce) reduce(layer, step);
    }
  }
  program.expect_verdicts("weights", "48 native");
  program.expect_why("all_gather", "weight_native");
}

/// A fresh input and a fresh output for each call, as both FSDPs have them.
void reduce_fresh(Program& program, int layer, int step, ncclDataType_t type, ncclRedOp_t op, double factor) {
  const std::size_t element = type == ncclFloat32 ? 4 : 2;
  const DeviceBytes input(program.ranks() * kCount * element), output(kCount * element);
  program.store_gradients(input.data(), kCount, layer, step, type);
  program.reduce("gradients", input.data(), output.data(), kCount, type, op);
  program.check_gradients(output.data(), kCount, layer, step, factor, kGradientError, type);
}

}  // namespace

TEST_CASE("Trace.Fsdp1KeepsWeightsNative") {
  for (const Memory memory : {Memory::fresh, Memory::reused}) {
    (void)run_trace(even_nodes(2, 1), job_of(2), [memory](RankContext& rank) {
      Program program(rank);
      train(program, false, memory,
            [&](int layer, int step) { reduce_fresh(program, layer, step, ncclFloat32, ncclSum, 1.0); });
      program.expect_verdicts("gradients", "24 compressed");
    });
  }
}

TEST_CASE("Trace.Fsdp2AveragesGradientsAndKeepsWeightsNative", "[G1]") {
  for (const ncclDataType_t type : {ncclFloat32, ncclBfloat16}) {
    (void)run_trace(even_nodes(2, 1), job_of(2), [type](RankContext& rank) {
      Program program(rank);
      train(program, true, Memory::reused,
            [&](int layer, int step) { reduce_fresh(program, layer, step, type, ncclAvg, 0.5); });
      program.expect_verdicts("gradients", "24 compressed");
    });
  }
}

TEST_CASE("Trace.Fsdp2DestroysItsOperatorBeforeTheGroupEnds", "[G2]") {
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    const DeviceBytes input(program.ranks() * kCount * 4), first(kCount * 4), second(kCount * 4);
    for (int step = 0; step < 6; ++step) {
      program.store_gradients(input.data(), kCount, 0, step);
      const float factors[2] = {1.0f, 1.0f / 300};
      program.group([&] {
        for (const int i : {0, 1}) {
          float scalar = factors[i];
          ncclRedOp_t op = ncclSum;
          check(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, program.comm()));
          program.reduce("gradients", input.data(), (i == 0 ? first : second).data(), kCount, ncclFloat32,
                         op);
          check(ncclRedOpDestroy(op, program.comm()));
          scalar = 1e30f;  // nobody reads it again
        }
      });
      program.check_gradients(first.data(), kCount, 0, step, double{factors[0]});
      program.check_gradients(second.data(), kCount, 0, step, double{factors[1]});
    }
    program.expect_verdicts("gradients", "4 native, 8 compressed");
  });
}

TEST_CASE("Trace.Zero3GathersIntoFreshTemporaries") {
  // Its gradients and their padding: test_padding.cpp.
  for (const Memory memory : {Memory::fresh, Memory::reused}) {
    (void)run_trace(even_nodes(2, 1), job_of(2), [memory](RankContext& rank) {
      Program program(rank);
      train(program, true, memory, nullptr);
    });
  }
}

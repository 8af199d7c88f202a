// Optimizers with one flat buffer of weights: DeepSpeed's ZeRO-1 and -2, apex; and pools that look like one.
#include <cstring>
#include <memory>

#include "trace.h"

using namespace sdp4bit::test;

TEST_CASE("Trace.Zero2GathersOneBufferAndReducesByAllReduce") {
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    const std::size_t count = 3000, own = static_cast<std::size_t>(program.rank()) * count;
    const DeviceBytes flat(Bytes(program.ranks() * count * 2));
    for (int step = 0; step < 16; ++step) {
      // Gradients travel by AllReduce, which is NCCL's: integers in fp32 add up exactly.
      const std::vector<float> values(1000, static_cast<float>(program.rank() + step));
      Bytes bytes(values.size() * 4);
      std::memcpy(bytes.data(), values.data(), bytes.size());
      const DeviceBytes bucket(bytes);
      check(ncclAllReduce(bucket.data(), bucket.data(), 1000, ncclFloat32, ncclSum, rank.comm, rank.stream));
      program.store_weights(flat.data() + own * 2, count, 0, step, ncclFloat16);
      program.gather("weights", flat.data() + own * 2, flat.data(), count, ncclFloat16);
      float sum = 0;
      std::memcpy(&sum, bucket.read().data(), sizeof sum);
      expect(sum == static_cast<float>(6 + 4 * step), "the sum of an AllReduce");
      program.check_weights(flat.data(), count, 0, step, step == 0 ? 0.0 : kDifferenceError, ncclFloat16);
    }
    program.expect_verdicts("weights", "11 native, 5 compressed");  // three calls until the handshake, then 8
    expect(statistics(program.comm(), "all_gather").calls == 16, "AllReduces are not counted");
  });
}

TEST_CASE("Trace.ApexCoalescesItsBuckets") {
  // startCoalescing: an outer group, and a group of each call inside.
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    constexpr std::size_t kCount = 768, kBuckets = 4;
    const auto own = static_cast<std::size_t>(program.rank()) * kCount;
    const DeviceBytes weights(Bytes(kBuckets * program.ranks() * kCount * 2)),
        gradients(Bytes(kBuckets * program.ranks() * kCount * 2)), shards(kBuckets * kCount * 2);
    const auto bucket = [&](const DeviceBytes& buffer, std::size_t b) {
      return buffer.data() + b * program.ranks() * kCount * 2;
    };
    for (int step = 0; step < 11; ++step) {
      for (std::size_t b = 0; b < kBuckets; ++b) {
        program.store_gradients(bucket(gradients, b), kCount, static_cast<int>(b), step, ncclBfloat16);
        program.store_weights(bucket(weights, b) + own * 2, kCount, static_cast<int>(b), step);
      }
      program.group([&] {
        for (std::size_t b = 0; b < kBuckets; ++b) {
          program.group([&] {
            program.reduce("gradients", bucket(gradients, b), shards.data() + b * kCount * 2, kCount,
                           ncclBfloat16);
          });
        }
      });
      program.group([&] {
        for (std::size_t b = 0; b < kBuckets; ++b) {
          program.group(
              [&] { program.gather("weights", bucket(weights, b) + own * 2, bucket(weights, b), kCount); });
        }
      });
      for (std::size_t b = 0; b < kBuckets; ++b) {
        const int layer = static_cast<int>(b);
        program.check_gradients(shards.data() + b * kCount * 2, kCount, layer, step, 1.0, kGradientError,
                                ncclBfloat16);
        program.check_weights(bucket(weights, b), kCount, layer, step, step < 8 ? 0.0 : kDifferenceError);
      }
    }
    program.expect_verdicts("gradients", "4 native, 40 compressed");
    // Four buffers are all seen twice in the records that exam 16 reads; exam 32 asks who is ready.
    program.expect_verdicts("weights", "32 native, 12 compressed");
  });
}

TEST_CASE("Trace.APoolOfFewBuffersServesManyLayers") {
  // Megatron-FSDP: the address is stable and the weights are another layer's. Gradients live there in turn.
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    constexpr std::size_t kCount = 600;
    const auto own = static_cast<std::size_t>(program.rank()) * kCount;
    const DeviceBytes pool[2] = {DeviceBytes(program.ranks() * kCount * 2),
                                 DeviceBytes(program.ranks() * kCount * 2)};
    const DeviceBytes shard(kCount * 2), gradients(program.ranks() * kCount * 4);
    int turn = 0;
    for (int step = 0; step < 5; ++step) {
      for (int layer = 0; layer < 5; ++layer) {
        std::byte* const full = pool[turn++ % 2].data();
        program.store_weights(shard.data(), kCount, layer, step);
        program.gather("weights", shard.data(), full, kCount);
        program.check_weights(full, kCount, layer, step, 0.0);
      }
      for (int layer = 4; layer >= 0; --layer) {
        program.store_gradients(gradients.data(), kCount, layer, step);
        program.reduce("gradients", gradients.data(), gradients.data() + own * 4, kCount);
        program.check_gradients(gradients.data() + own * 4, kCount, layer, step, 1.0);
      }
    }
    program.expect_verdicts("weights", "25 native");
    program.expect_why("all_gather", "weight_native");
    program.expect_verdicts("gradients", "25 compressed");
  });
}

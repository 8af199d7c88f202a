// Megatron-LM's distributed optimizer: persistent buffers, gathered and reduced in place.
#include <algorithm>
#include <memory>

#include "trace.h"

using namespace sdp4bit::test;

namespace {

/// A bucket of parameters (bf16) and gradients (fp32), allocated once.
struct Bucket {
  Bucket(int number, std::size_t shard, const Program& program)
      : layer(number),
        count(shard),
        own(static_cast<std::size_t>(program.rank()) * shard),
        parameters(Bytes(program.ranks() * shard * 2)),
        gradients(Bytes(program.ranks() * shard * 4)) {}
  int layer;
  std::size_t count, own;
  DeviceBytes parameters, gradients;
  [[nodiscard]] std::byte* own_parameters() const { return parameters.data() + own * 2; }
  [[nodiscard]] std::byte* own_gradients() const { return gradients.data() + own * 4; }
};

void backward(Program& program, const Bucket& bucket, int step) {
  program.store_gradients(bucket.gradients.data(), bucket.count, bucket.layer, step);
  program.reduce("gradients", bucket.gradients.data(), bucket.own_gradients(), bucket.count);
}
void sync(Program& program, const Bucket& bucket, const char* kind = "weights") {
  program.gather(kind, bucket.own_parameters(), bucket.parameters.data(), bucket.count);
}
double bound(int step) {
  return step == 0 ? 0.0 : kDifferenceError;
}

}  // namespace

TEST_CASE("Trace.MegatronWithoutOverlapIsOneBucket") {
  // What two variables give: nothing but the launcher's size of the job says which communicator to take.
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    const Bucket model(0, 2112, program);
    for (int step = 0; step < 16; ++step) {
      backward(program, model, step);
      program.check_gradients(model.own_gradients(), model.count, 0, step, 1.0);
      program.store_weights(model.own_parameters(), model.count, 0, step);
      sync(program, model);
      program.check_weights(model.parameters.data(), model.count, 0, step, bound(step));
    }
    // The fourth call on the communicator reads the handshake; a class of weights then learns for 8 calls.
    program.expect_verdicts("gradients", "2 native, 14 compressed");
    program.expect_verdicts("weights", "9 native, 7 compressed");
  });
}

TEST_CASE("Trace.MegatronWithOverlapGathersBucketsInReverse") {
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    std::vector<std::unique_ptr<Bucket>> buckets;
    for (int b = 0; b < 3; ++b)
      buckets.push_back(std::make_unique<Bucket>(b, b < 2 ? 1024 : 704, program));  // the last is smaller
    for (int step = 0; step < 14; ++step) {
      for (const auto& bucket : buckets) backward(program, *bucket, step);
      for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
        const int layer = (*bucket)->layer;
        program.check_gradients((*bucket)->own_gradients(), (*bucket)->count, layer, step, 1.0);
        program.store_weights((*bucket)->own_parameters(), (*bucket)->count, layer, step);
        sync(program, **bucket, layer < 2 ? "large" : "small");
        program.check_weights((*bucket)->parameters.data(), (*bucket)->count, layer, step, bound(step));
      }
    }
    program.expect_verdicts("gradients", "3 native, 39 compressed");
    program.expect_verdicts("large", "8 native, 20 compressed");  // one class: two buckets take turns
    program.expect_verdicts("small", "8 native, 6 compressed");
  });
}

TEST_CASE("Trace.MegatronGroupsTheBucketsOfOneSync") {
  // fp8 and bf16 buckets of one bucket group go out together; bytes are nobody's weights.
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    const Bucket first(0, 1024, program), second(1, 1024, program);
    const DeviceBytes bytes(Bytes(program.ranks() * 512, std::byte{3}));
    for (int step = 0; step < 12; ++step) {
      program.group([&] { backward(program, first, step), backward(program, second, step); });
      for (const Bucket* bucket : {&first, &second})
        program.store_weights(bucket->own_parameters(), bucket->count, bucket->layer, step);
      program.group([&] { sync(program, second), sync(program, first); });
      const auto own = static_cast<std::size_t>(program.rank()) * 512;
      program.gather("bytes", bytes.data() + own, bytes.data(), 512, ncclUint8);
      for (Bucket const* bucket : {&first, &second}) {
        program.check_gradients(bucket->own_gradients(), bucket->count, bucket->layer, step, 1.0);
        program.check_weights(bucket->parameters.data(), bucket->count, bucket->layer, step, bound(step));
      }
    }
    program.expect_verdicts("gradients", "2 native, 22 compressed");
    program.expect_verdicts("weights", "10 native, 14 compressed");
    program.expect_verdicts("bytes", "12 native");
    program.expect_why("all_gather", "type_not_taken");
  });
}

TEST_CASE("Trace.MegatronSharesTheGradientBufferWithMxfp8Weights") {
  // The same memory is a bf16 buffer of weights, then of gradients: worthless as what the others hold.
  const auto outcomes = run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    const std::size_t count = 1024, own = static_cast<std::size_t>(program.rank()) * count;
    const DeviceBytes buffer(Bytes(program.ranks() * count * 4));
    for (int step = 0; step < 24; ++step) {
      const int layer = step < 14 ? 0 : 5;  // a checkpoint is loaded before step 14
      program.store_weights(buffer.data() + own * 2, count, layer, step);
      program.gather("weights", buffer.data() + own * 2, buffer.data(), count);
      // The error of a jump is part of the next difference.
      const double jump = step == 14   ? kJumpError
                          : step == 15 ? kJumpError * kCodeError + bound(step)
                                       : bound(step);
      program.check_weights(buffer.data(), count, layer, step, jump);  // copied out, in truth
      check(cudaMemset(buffer.data(), 0, buffer.bytes()));
      program.store_gradients(buffer.data(), count, 0, step);
      program.reduce("gradients", buffer.data(), buffer.data() + own * 4, count);
      program.check_gradients(buffer.data() + own * 4, count, 0, step, 1.0);
    }
    program.expect_verdicts("gradients", "1 native, 23 compressed");
    // The jump is read four calls later and makes one round native.
    program.expect_verdicts("weights", "10 native, 8 compressed, 1 native, 5 compressed");
  });
  for (const Outcome& outcome : outcomes) CHECK(outcome.log.find("one round native") != std::string::npos);
}

TEST_CASE("Trace.MegatronForcesSyncsForEvaluationAndCheckpoints") {
  // Gathers without a step, some of them of only some buckets: each brings the weights nearer.
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    const Bucket first(0, 1024, program), second(1, 1024, program);
    const auto gather = [&](const Bucket& bucket, int step, double allowed) {
      program.store_weights(bucket.own_parameters(), bucket.count, bucket.layer, step);
      sync(program, bucket);
      program.check_weights(bucket.parameters.data(), bucket.count, bucket.layer, step, allowed);
    };
    for (int step = 0; step < 16; ++step) {
      for (const Bucket* bucket : {&second, &first}) gather(*bucket, step, bound(step));
      // A former error of at most kDifferenceError, coded again, and half an ulp below 0.125.
      const double repeated = kDifferenceError * kCodeError + 0x1p-12;
      if (step % 5 == 4) gather(second, step, repeated), gather(first, step, repeated);  // a checkpoint
      if (step % 6 == 5) gather(first, step, repeated), gather(first, step, 0x1p-12);    // an evaluation
    }
    program.expect_verdicts("weights", "11 native, 31 compressed");
  });
}

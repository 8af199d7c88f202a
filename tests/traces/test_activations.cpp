// Calls that carry no weights and no gradients, and programs that make communicators while groups are open.
#include <memory>

#include "trace.h"

using namespace sdp4bit::test;

namespace {

/// Sequence parallelism: activations gathered into a buffer with a stable address, and reduced from fresh
/// ones; wholly other numbers at each call. Both must be exact to the last bit that NCCL gives.
void forward(Program& program, const DeviceBytes& buffer, int call) {
  constexpr std::size_t kCount = 512;
  const DeviceBytes shard(kCount * 2), input(program.ranks() * kCount * 2), output(kCount * 2);
  program.store_weights(shard.data(), kCount, 100 + call, 0);
  program.gather("activations", shard.data(), buffer.data(), kCount);
  program.check_weights(buffer.data(), kCount, 100 + call, 0, 0.0);
  program.store_gradients(input.data(), kCount, 100 + call, 0, ncclBfloat16);
  program.reduce("partial sums", input.data(), output.data(), kCount, ncclBfloat16);
  // NCCL's own rounding of bf16 sums.
  program.check_gradients(output.data(), kCount, 100 + call, 0, 1.0, 0.01, ncclBfloat16);
}

void step(Program& program, const DeviceBytes& buffer, int number) {
  constexpr std::size_t kCount = 1024;
  const auto own = static_cast<std::size_t>(program.rank()) * kCount * 2;
  program.store_weights(buffer.data() + own, kCount, 0, number);
  program.gather("weights", buffer.data() + own, buffer.data(), kCount);
  program.check_weights(buffer.data(), kCount, 0, number, number == 0 ? 0.0 : kDifferenceError);
}

}  // namespace

TEST_CASE("Trace.SequenceParallelismInANodeBesideDataParallelism", "[J9]") {
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    const ncclComm_t tensor = split(rank, rank.rank / 2, "TENSOR_MODEL_PARALLEL_GROUP:1");
    const ncclComm_t data = split(rank, rank.rank % 2, "DATA_PARALLEL_GROUP_WITH_CP:2");
    {
      Program model(rank, tensor), replicas(rank, data);
      const DeviceBytes mpu(2 * 512 * 2), weights(Bytes(2 * 1024 * 2));
      for (int number = 0; number < 14; ++number) {
        for (int layer = 0; layer < 2; ++layer) forward(model, mpu, number * 2 + layer);
        step(replicas, weights, number);
      }
      model.expect_verdicts("activations", "28 native");
      model.expect_verdicts("partial sums", "28 native");
      model.expect_why("all_gather", "agreement_off");
      replicas.expect_verdicts("weights", "11 native, 3 compressed");
    }
    check(ncclCommDestroy(data));
    check(ncclCommDestroy(tensor));
  });
}

TEST_CASE("Trace.SequenceParallelismBetweenNodesIsToldByItsName") {
  (void)run_trace(even_nodes(2, 1), job_of(2), [](RankContext& rank) {
    for (const char* name : {"TENSOR_MODEL_PARALLEL_GROUP:3", "CONTEXT_PARALLEL_GROUP:4", "mesh_tp:5"}) {
      const ncclComm_t tensor = split(rank, 0, name);  // all ranks of the job, and yet no gradients
      {
        Program model(rank, tensor);
        const DeviceBytes mpu(2 * 512 * 2);
        for (int call = 0; call < 6; ++call) forward(model, mpu, call);
        model.expect_verdicts("activations", "6 native");
        model.expect_verdicts("partial sums", "6 native");
        model.expect_why("reduce_scatter", "agreement_off");
      }
      check(ncclCommDestroy(tensor));
    }
  });
}

TEST_CASE("Trace.ActivationsOnAnyCommunicatorNeverTravelAsDifferences") {
  // Even where a user takes every communicator: an address that comes again is no proof of weights.
  (void)run_trace(even_nodes(2, 1), {{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_COLLECTIVES", "all_gather"}},
                  [](RankContext& rank) {
                    Program program(rank);
                    const DeviceBytes mpu(2 * 512 * 2);
                    for (int call = 0; call < 40; ++call) forward(program, mpu, call);
                    program.expect_verdicts("activations", "40 native");
                    program.expect_why("all_gather", "weight_native");
                  });
}

TEST_CASE("Trace.PyTorchMakesCommunicatorsWhileGroupsAreOpen") {
  // All open groups are closed with what they hold, a communicator is made, and they are opened again.
  (void)run_trace(even_nodes(2, 2), job_of(4), [](RankContext& rank) {
    Program program(rank);
    std::vector<ncclComm_t> lazy;
    constexpr std::size_t kCount = 1000;
    const DeviceBytes inputs[2] = {DeviceBytes(program.ranks() * kCount * 4),
                                   DeviceBytes(program.ranks() * kCount * 4)};
    const DeviceBytes outputs[2] = {DeviceBytes(kCount * 4), DeviceBytes(kCount * 4)};
    for (int number = 0; number < 5; ++number) {
      for (const int i : {0, 1}) program.store_gradients(inputs[i].data(), kCount, i, number);
      const auto open = [&] {
        program.begin_group();
        for (int depth = 0; depth < 2; ++depth) check(ncclGroupStart());
      };
      const auto close = [&] {
        for (int depth = 0; depth < 2; ++depth) check(ncclGroupEnd());
        program.end_group();
      };
      open();
      program.reduce("gradients", inputs[0].data(), outputs[0].data(), kCount);
      close();
      lazy.push_back(split(rank, rank.rank % 2, "pipeline"));
      open();
      program.reduce("gradients", inputs[1].data(), outputs[1].data(), kCount);
      close();
      for (const int i : {0, 1}) program.check_gradients(outputs[i].data(), kCount, i, number, 1.0);
    }
    // The groups end between the two calls, and the fourth call reads the handshake.
    program.expect_verdicts("gradients", "3 native, 7 compressed");
    for (const ncclComm_t comm : lazy) check(ncclCommDestroy(comm));
  });
}

// Wrong calls get the answers that NCCL gives without the library, alone and in groups, and do no harm.
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "life_case.h"
#include "tests/collectives/statistics/statistics.h"

namespace sdp4bit::test {
namespace {

const GradientCase kGradient{.count = 900};
constexpr std::size_t kCount = 900;

/// NCCL's functions as a program calls them, or past the library.
struct Functions {
  decltype(&ncclReduceScatter) reduce_scatter = ncclReduceScatter;
  decltype(&ncclAllGather) all_gather = ncclAllGather;
  decltype(&ncclGroupStart) group_start = ncclGroupStart;
  decltype(&ncclGroupEnd) group_end = ncclGroupEnd;
  decltype(&ncclCommFinalize) finalize = ncclCommFinalize;
  decltype(&ncclCommRevoke) revoke = ncclCommRevoke;
  decltype(&ncclCommSplit) split = ncclCommSplit;
  decltype(&ncclCommAbort) abort = ncclCommAbort;
  decltype(&ncclRedOpCreatePreMulSum) create_operator = ncclRedOpCreatePreMulSum;
  decltype(&ncclRedOpDestroy) destroy_operator = ncclRedOpDestroy;
};
const Functions kTaken;
const Functions kNative{pncclReduceScatter,        pncclAllGather,   pncclGroupStart, pncclGroupEnd,
                        pncclCommFinalize,         pncclCommRevoke,  pncclCommSplit,  pncclCommAbort,
                        pncclRedOpCreatePreMulSum, pncclRedOpDestroy};

/// Programs in C, and wrong memory, bring values that the enumerations do not have.
ncclDataType_t no_type(int value) {
  ncclDataType_t type;
  static_assert(sizeof type == sizeof value);
  std::memcpy(&type, &value, sizeof type);
  return type;
}
ncclRedOp_t no_operator(int value) {
  ncclRedOp_t op;
  static_assert(sizeof op == sizeof value);
  std::memcpy(&op, &value, sizeof op);
  return op;
}

/// What a misuse works with: buffers, and a communicator of its own that has agreed to compress.
struct Scene {
  const Functions& nccl;
  ncclComm_t comm;
  ncclComm_t other;  // that the misuse may use wrongly, but not harm
  cudaStream_t stream;
  std::byte* send;
  std::byte* receive;

  [[nodiscard]] ncclResult_t reduce(std::size_t count = kCount, ncclRedOp_t op = ncclSum,
                                    ncclDataType_t type = ncclFloat32) const {
    return nccl.reduce_scatter(send, receive, count, type, op, comm, stream);
  }
  [[nodiscard]] ncclResult_t gather(ncclDataType_t type = ncclBfloat16) const {
    return nccl.all_gather(receive, send, kCount, type, comm, stream);
  }
};
using Answers = std::vector<ncclResult_t>;
using Misuse = Answers (*)(const Scene&);

std::string text_of(const Answers& answers) {
  std::string text;
  for (const ncclResult_t answer : answers) text += " " + std::to_string(answer);
  return text;
}

Answers answers_of(const RankContext& rank, const Functions& nccl, Misuse misuse) {
  const DeviceBytes send(Bytes(2 * kCount * 4)), receive(Bytes(kCount * 4));
  Scene scene{nccl, nullptr, rank.comm, rank.stream, send.data(), receive.data()};
  check(nccl.split(rank.comm, 0, rank.rank, &scene.comm, nullptr));
  for (int i = 0; i < 5; ++i) {
    check(scene.reduce());
    check(scene.gather());
  }
  check(cudaStreamSynchronize(rank.stream));
  const Answers answers = misuse(scene);
  check(nccl.abort(scene.comm));
  check(cudaStreamSynchronize(rank.stream));
  return answers;
}

/// The same answers with the library and past it, and other communicators go on as if nothing had been.
void same_answers(Misuse misuse) {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [&](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        for (int i = 0; i < 4; ++i) call.issue(rank.comm, rank.stream);
        const std::string native = text_of(answers_of(rank, kNative, misuse));
        const std::uint64_t before = calls_of("reduce_scatter").compressed;
        const std::string taken = text_of(answers_of(rank, kTaken, misuse));
        expect(calls_of("reduce_scatter").compressed > before, "calls before were compressed");
        expect(taken == native, "answers" + taken + ", of NCCL" + native);
        call.issue(rank.comm, rank.stream);
        check(cudaStreamSynchronize(rank.stream));
        expect(calls_of("reduce_scatter").compressed > before + 1, "others go on");
      });
  CHECK(failures(outcomes) == "");
}

/// Calls alone, then in a group, then in a group of a group.
Answers alone_and_in_groups(const Scene& scene, const std::function<ncclResult_t()>& wrong) {
  Answers answers{wrong()};
  for (int depth = 1; depth <= 2; ++depth) {
    for (int i = 0; i < depth; ++i) answers.push_back(scene.nccl.group_start());
    answers.push_back(wrong());
    for (int i = 0; i < depth; ++i) answers.push_back(scene.nccl.group_end());
  }
  return answers;
}

TEST_CASE("Misuse.CallsBehindFinalize") {
  same_answers([](const Scene& scene) {
    check(scene.nccl.finalize(scene.comm));
    Answers answers = alone_and_in_groups(scene, [&] { return scene.reduce(); });
    for (const ncclResult_t more : alone_and_in_groups(scene, [&] { return scene.gather(); }))
      answers.push_back(more);
    answers.push_back(scene.nccl.finalize(scene.comm));
    return answers;
  });
}

TEST_CASE("Misuse.CallsBehindRevoke") {
  same_answers([](const Scene& scene) {
    check(scene.nccl.revoke(scene.comm, NCCL_REVOKE_DEFAULT));
    Answers answers = alone_and_in_groups(scene, [&] { return scene.reduce(); });
    for (const ncclResult_t more : alone_and_in_groups(scene, [&] { return scene.gather(); }))
      answers.push_back(more);
    return answers;
  });
}

TEST_CASE("Misuse.TypesAndOperatorsThatAreNone") {
  same_answers([](const Scene& scene) {
    return alone_and_in_groups(scene, [&] { return scene.reduce(kCount, ncclSum, no_type(99)); });
  });
  same_answers([](const Scene& scene) {
    return alone_and_in_groups(scene, [&] { return scene.reduce(kCount, no_operator(77)); });
  });
  same_answers([](const Scene& scene) {
    return alone_and_in_groups(scene, [&] { return scene.reduce(kCount, no_operator(-1)); });
  });
  same_answers([](const Scene& scene) {
    return alone_and_in_groups(scene, [&] { return scene.gather(no_type(-2)); });
  });
  same_answers([](const Scene& scene) {
    return alone_and_in_groups(scene, [&] {
      return scene.nccl.reduce_scatter(scene.send, scene.receive, kCount, ncclFloat32, ncclSum, nullptr,
                                       scene.stream);
    });
  });
}

TEST_CASE("Misuse.OperatorsOfAnotherTypeCommunicatorOrTime") {
  same_answers([](const Scene& scene) {
    float factor = 0.5f;
    ncclRedOp_t single = ncclSum, others = ncclSum;
    check(scene.nccl.create_operator(&single, &factor, ncclFloat32, ncclScalarHostImmediate, scene.comm));
    check(scene.nccl.create_operator(&others, &factor, ncclFloat32, ncclScalarHostImmediate, scene.other));
    Answers answers = alone_and_in_groups(scene, [&] { return scene.reduce(kCount, single, ncclBfloat16); });
    for (const ncclResult_t more : alone_and_in_groups(scene, [&] { return scene.reduce(kCount, others); }))
      answers.push_back(more);
    answers.push_back(scene.nccl.destroy_operator(others, scene.comm));
    check(scene.nccl.destroy_operator(others, scene.other));
    // One that exists at the call and not at the group's end is right.
    answers.push_back(scene.nccl.group_start());
    answers.push_back(scene.reduce(kCount, single));
    answers.push_back(scene.nccl.destroy_operator(single, scene.comm));
    answers.push_back(scene.nccl.group_end());
    for (const ncclResult_t more : alone_and_in_groups(scene, [&] { return scene.reduce(kCount, single); }))
      answers.push_back(more);
    answers.push_back(scene.nccl.destroy_operator(single, scene.comm));
    return answers;
  });
}

TEST_CASE("Misuse.GroupsThatEndTooOften") {
  same_answers([](const Scene& scene) {
    Answers answers{scene.nccl.group_end(), scene.nccl.group_start(), scene.reduce(), scene.nccl.group_end(),
                    scene.nccl.group_end()};
    answers.push_back(scene.reduce());
    return answers;
  });
}

TEST_CASE("Misuse.CallsWithoutElementsAreSuccesses") {
  same_answers([](const Scene& scene) {
    Answers answers = alone_and_in_groups(scene, [&] { return scene.reduce(0); });
    answers.push_back(
        scene.nccl.reduce_scatter(nullptr, nullptr, 0, ncclFloat32, ncclSum, scene.comm, nullptr));
    answers.push_back(scene.nccl.all_gather(nullptr, nullptr, 0, ncclBfloat16, scene.comm, nullptr));
    return answers;
  });
}

/// In a process of its own: what NCCL makes of such a count is nobody's promise, but the host must not hang.
TEST_CASE("Misuse.ACountThatCannotBeIsNcclsToRefuse") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything, .timeout_seconds = 20},
                  [](RankContext& rank) {
                    const Reduction call(kGradient, rank.rank, rank.ranks);
                    for (int i = 0; i < 4; ++i) call.issue(rank.comm, rank.stream);
                    check(cudaStreamSynchronize(rank.stream));
                    for (const std::size_t count : {std::size_t{1} << 62, (std::size_t{1} << 62) + 1000}) {
                      (void)ncclReduceScatter(call.receive().data(), call.receive().data(), count,
                                              ncclFloat32, ncclSum, rank.comm, rank.stream);
                    }
                    expect(why(rank.comm, "reduce_scatter").starts_with("too_large"), "why");
                    check(ncclCommAbort(std::exchange(rank.comm, nullptr)));
                  });
  CHECK(failures(outcomes) == "");
}

/// What this rank sends next is not what its peers expect, in a graph neither.
TEST_CASE("Misuse.AFailedCommunicatorTakesNoCapturedCall") {
  // 4 calls and the handshake, connecting and exchange of a send and a receive each: the ninth is of call 5.
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1),
                   .environment = everything_and("SANDBOX_NCCL_FAULT", "fail:rank=0,call=9,code=2")},
                  [](RankContext& rank) {
                    const Reduction call(kGradient, rank.rank, rank.ranks);
                    for (int i = 0; i < 4; ++i) call.issue(rank.comm, rank.stream);
                    check(cudaStreamSynchronize(rank.stream));
                    if (rank.rank == 0) {
                      expect(call.try_on(rank.comm, rank.stream) == ncclSystemError, "the planted failure");
                      expect(call.try_on(rank.comm, rank.stream) == ncclInternalError, "the next call");
                      check(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
                      expect(call.try_on(rank.comm, rank.stream) == ncclInternalError, "a captured call");
                      check(ncclGroupStart());
                      expect(call.try_on(rank.comm, rank.stream) == ncclInternalError, "and one in a group");
                      expect(ncclGroupEnd() == ncclInternalError, "whose end says it too");
                      cudaGraph_t graph = nullptr;
                      check(cudaStreamEndCapture(rank.stream, &graph));
                      std::size_t nodes = 0;
                      check(cudaGraphGetNodes(graph, nullptr, &nodes));
                      expect(nodes == 0, "nothing was captured");
                      check(cudaGraphDestroy(graph));
                    }
                    check(ncclCommAbort(std::exchange(rank.comm, nullptr)));
                  });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Misuse.OtherTypesStayNativeAndSayWhy") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        for (int i = 0; i < 4; ++i) call.issue(rank.comm, rank.stream);
        const std::uint64_t before = calls_of("reduce_scatter").compressed;
        const DeviceBytes send(Bytes(2 * kCount * 8)), receive(Bytes(2 * kCount * 8));
        for (const ncclDataType_t type : {ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64,
                                          ncclFloat64, ncclFloat8e4m3, ncclFloat8e5m2}) {
          check(
              ncclReduceScatter(send.data(), receive.data(), kCount, type, ncclSum, rank.comm, rank.stream));
          expect(why(rank.comm, "reduce_scatter").starts_with("type_not_taken"), "why of a ReduceScatter");
          check(ncclAllGather(send.data(), receive.data(), kCount, type, rank.comm, rank.stream));
          expect(why(rank.comm, "all_gather").starts_with("type_not_taken"), "why of an AllGather");
        }
        for (const ncclRedOp_t op : {ncclProd, ncclMax, ncclMin}) {
          check(ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat32, op, rank.comm,
                                  rank.stream));
          expect(why(rank.comm, "reduce_scatter").starts_with("op_not_taken"), "why of another operator");
        }
        check(cudaStreamSynchronize(rank.stream));
        expect(calls_of("reduce_scatter").compressed == before, "native");
      });
  CHECK(failures(outcomes) == "");
}

/// The output lies in the input, but not where in place would be: what it holds is nobody's promise, but
/// nothing else may change and the next call is right.
TEST_CASE("Misuse.OverlappingBuffersHarmNothingElse") {
  const auto outcomes = run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [](RankContext&
                                                                                                      rank) {
    const Reduction call(kGradient, rank.rank, rank.ranks);
    for (int i = 0; i < 4; ++i) call.issue(rank.comm, rank.stream);
    const Bytes before(3 * kCount * 4, std::byte{0x3c});
    for (const std::size_t offset : {std::size_t{0}, std::size_t{4}, kCount * 2, kCount * 4, kCount * 6}) {
      const DeviceBytes memory(before);
      check(ncclReduceScatter(memory.data(), memory.data() + offset, kCount, ncclFloat32, ncclSum, rank.comm,
                              rank.stream));
      check(cudaStreamSynchronize(rank.stream));
      const Bytes after = memory.read();
      for (std::size_t i = 0; i < after.size(); ++i) {
        if (i < offset || i >= offset + kCount * 4) expect(after[i] == before[i], "a byte beside the output");
      }
    }
    const std::uint64_t compressed = calls_of("reduce_scatter").compressed;
    call.issue(rank.comm, rank.stream);
    check(cudaStreamSynchronize(rank.stream));
    expect(calls_of("reduce_scatter").compressed == compressed + 1, "the next call");
  });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test

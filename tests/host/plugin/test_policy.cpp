// Which call is taken: each rule alone.
#include "catch.h"
#include "plugin/policy.h"

namespace sdp4bit {
namespace {

constexpr CallFacts kCall{.count = 1 << 20, .type = ncclBfloat16};
constexpr std::uint64_t kMegabyte = 1 << 20;
constexpr LeastBytes kLeast{{{{kMegabyte, kMegabyte, kMegabyte}, {kMegabyte, kMegabyte, kMegabyte}}}};
constexpr CommFacts kComm{.ranks = 8, .agreement = Agreement::on, .calls_before_group = 10, .least = &kLeast};

Reason with_call(auto change) {
  CallFacts call = kCall;
  change(call);
  return decide(call, kComm, Config{});
}

Reason with_comm(auto change) {
  CommFacts comm = kComm;
  change(comm);
  return decide(kCall, comm, Config{});
}

Reason with_config(auto change) {
  Config config;
  change(config);
  return decide(kCall, kComm, config);
}

TEST_CASE("Policy.TakesFloatsOfAgreedCommunicators") {
  CHECK(decide(kCall, kComm, Config{}) == Reason::compressed);
  CHECK(with_call([](CallFacts& call) { call.type = ncclFloat32; }) == Reason::compressed);
  CHECK(with_call([](CallFacts& call) { call.op = OpKind::avg; }) == Reason::compressed);
  CHECK(with_call([](CallFacts& call) { call.op = OpKind::pre_mul_sum; }) == Reason::compressed);
}

TEST_CASE("Policy.LeavesWhatItDoesNotUnderstand") {
  for (const ncclDataType_t type : {ncclInt8, ncclUint8, ncclInt32, ncclInt64, ncclFloat64, ncclFloat8e4m3}) {
    CHECK(with_call([&](CallFacts& call) { call.type = type; }) == Reason::type_not_taken);
  }
  CHECK(with_call([](CallFacts& call) { call.op = OpKind::other; }) == Reason::op_not_taken);
  CHECK(with_call([](CallFacts& call) { call.count = 0; }) == Reason::zero_count);
  CHECK(with_call([](CallFacts& call) { call.capturing = true; }) == Reason::capturing);
  CallFacts captured = kCall;
  captured.capturing = true;
  CommFacts warm = kComm;
  warm.gradients_before = true;
  CHECK(decide(captured, warm, Config{}) == Reason::compressed);
  captured.collective = Collective::all_gather;
  CHECK(decide(captured, warm, Config{}) == Reason::capturing);
}

TEST_CASE("Policy.NothingBeforeOrWithoutAgreement") {
  CHECK(with_comm([](CommFacts& comm) { comm.agreement = Agreement::pending; }) == Reason::not_agreed_yet);
  CHECK(with_comm([](CommFacts& comm) { comm.agreement = Agreement::off; }) == Reason::agreement_off);
  CHECK(with_comm([](CommFacts& comm) { comm.ranks = 1; }) == Reason::one_rank);
}

TEST_CASE("Policy.ALastingReasonNeedsNoQuestionToCuda") {
  const auto lasting = [](auto change_call, auto change_comm) {
    CallFacts call = kCall;
    CommFacts comm = kComm;
    change_call(call);
    change_comm(comm);
    const std::optional<Reason> reason = lasting_reason(call, comm, Config{});
    // What lasts is the decision of every call that is not captured.
    if (reason) CHECK(decide(call, comm, Config{}) == *reason);
    return reason;
  };
  const auto same = [](auto&) {};
  CHECK(lasting([](CallFacts& call) { call.type = ncclInt8; }, same) == Reason::type_not_taken);
  CHECK(lasting([](CallFacts& call) { call.count = 1; }, same) == Reason::too_small);
  CHECK(lasting([](CallFacts& call) { call.count = 0; }, same) == Reason::zero_count);
  CHECK(lasting(same, [](CommFacts& comm) { comm.agreement = Agreement::off; }) == Reason::agreement_off);
  CHECK(lasting(same, [](CommFacts& comm) { comm.gradients_native = true; }) == Reason::padded_gradients);
  // These change with the next calls, or with the stream.
  CHECK_FALSE(lasting(same, same).has_value());
  CHECK_FALSE(lasting(same, [](CommFacts& comm) { comm.agreement = Agreement::pending; }).has_value());
  CHECK_FALSE(lasting(same, [](CommFacts& comm) { comm.calls_before_group = 0; }).has_value());
}

TEST_CASE("Policy.PaddedGradientsStayNativeAndWeightsDoNot") {
  CommFacts comm = kComm;
  comm.gradients_native = true;
  CallFacts call = kCall;
  CHECK(decide(call, comm, Config{}) == Reason::padded_gradients);
  call.collective = Collective::all_gather;
  CHECK(decide(call, comm, Config{}) == Reason::compressed);
}

TEST_CASE("Policy.OptionsNarrowWhatIsTaken") {
  CHECK(with_config([](Config& config) { config.collectives.reduce_scatter = false; }) ==
        Reason::collective_not_taken);
  CHECK(with_config([](Config& config) { config.gradient_types.bfloat16 = false; }) ==
        Reason::type_not_taken);
  CHECK(with_config([](Config& config) { config.start_call = 11; }) == Reason::before_start_call);
  CHECK(with_config([](Config& config) { config.start_call = 10; }) == Reason::compressed);
}

TEST_CASE("Policy.EachFunctionAndTypeHasItsLeastSize") {
  const std::uint64_t bytes = kCall.count * 2 * kComm.ranks;
  const auto with_least = [&](std::uint64_t of_gradients, std::uint64_t of_weights) {
    LeastBytes least;
    least.of(Collective::reduce_scatter, ElementType::bfloat16) = of_gradients;
    least.of(Collective::all_gather, ElementType::bfloat16) = of_weights;
    return with_comm([&](CommFacts& comm) { comm.least = &least; });
  };
  CHECK(with_least(bytes, bytes + 1) == Reason::compressed);
  CHECK(with_least(bytes + 1, 0) == Reason::too_small);
}

TEST_CASE("Policy.LeavesSizesThatCannotBe") {
  for (const std::uint64_t count : {(std::uint64_t{1} << 48) / 2 / kComm.ranks + 1, std::uint64_t{1} << 62,
                                    ~std::uint64_t{0}, ~std::uint64_t{0} / 2 / kComm.ranks + 1}) {
    CallFacts call = kCall;
    call.count = count;
    CHECK(decide(call, kComm, Config{}) == Reason::too_large);
    call.collective = Collective::all_gather;
    CHECK(decide(call, kComm, Config{}) == Reason::too_large);
  }
  CallFacts call = kCall;
  call.count = std::size_t{1} << 36;
  CHECK(decide(call, kComm, Config{}) == Reason::compressed);
}

TEST_CASE("Policy.WeightsHaveTheirOwnTypes") {
  CallFacts call{.collective = Collective::all_gather, .count = 1 << 20, .type = ncclFloat32};
  CHECK(decide(call, kComm, Config{}) == Reason::type_not_taken);
  call.type = ncclFloat16;
  CHECK(decide(call, kComm, Config{}) == Reason::compressed);
}

TEST_CASE("Policy.LeavesWhatTheCommunicatorDoesNotCarry") {
  CHECK(with_comm([](CommFacts& comm) { comm.carried.gradients = false; }) == Reason::hinted_otherwise);
  CHECK(with_comm([](CommFacts& comm) { comm.carried.weights = false; }) == Reason::compressed);
}

}  // namespace
}  // namespace sdp4bit

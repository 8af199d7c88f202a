// The verdict: from the records alone, the same on every rank, with a reason that a person can act on.
#include <cstring>
#include <vector>

#include "catch.h"
#include "other_value.h"
#include "plugin/handshake.h"

namespace sdp4bit {
namespace {

using Bits = HandshakeRecord::Bits;
constexpr std::uint32_t kYes = Bits::enabled | Bits::selected | Bits::blocking | Bits::workspace_ready;

std::vector<HandshakeRecord> records(std::size_t ranks, std::uint32_t bits = kYes) {
  std::vector<HandshakeRecord> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    all.push_back(make_record(Config{}, bits, static_cast<std::int64_t>(rank)));
    all.back().host_hash = rank / 2;
  }
  return all;
}

Verdict verdict_of(const std::vector<HandshakeRecord>& all, const Config& config = {}) {
  std::vector<std::uint64_t> hosts;
  for (const HandshakeRecord& record : all) hosts.push_back(record.host_hash);
  return judge(all, make_topology(hosts, 0, 0), config);
}

bool says(const Verdict& verdict, const std::string& text) {
  return verdict.reason.find(text) != std::string::npos;
}

TEST_CASE("Handshake.EqualRanksAgree") {
  const Verdict verdict = verdict_of(records(4));
  CHECK(verdict.agreement == Agreement::on);
  CHECK(verdict.job_ranks_differ);
}

TEST_CASE("Handshake.ValuesWhoseBeginningsAreEqualAreSaidToDiffer") {
  auto all = records(2);
  for (HandshakeRecord& record : all) std::memset(record.variables[3].text, 'x', kValueText);
  all[1].variables[3].digest ^= 1;
  CHECK(says(verdict_of(all), "xx...\" on rank 0 and \"xx"));
  CHECK(says(verdict_of(all), "xx...\" on rank 1, which differ further on; set it alike"));
}

TEST_CASE("Handshake.AFrameworkThatPadsOnOneRankKeepsGradientsNativeOnAll") {
  auto all = records(4);
  CHECK_FALSE(verdict_of(all).gradients_native);
  all[3].bits |= Bits::garbage_padding;
  CHECK(verdict_of(all).agreement == Agreement::on);
  CHECK(verdict_of(all).gradients_native);
  Config taken;
  taken.gradients_padded = true;
  CHECK_FALSE(verdict_of(all, taken).gradients_native);
}

/// Records as they arrive: sealed.
std::vector<HandshakeRecord> arrived(std::size_t ranks) {
  std::vector<HandshakeRecord> all;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    all.push_back(make_record(Config{}, kYes, static_cast<std::int64_t>(rank)));
  return all;
}

TEST_CASE("Handshake.ARecordInWhichAnyBitFlippedIsFound") {
  const auto whole = arrived(3);
  CHECK(find_damaged(whole) == -1);
  for (std::size_t bit = 0; bit < 8 * sizeof(HandshakeRecord); ++bit) {
    auto all = whole;
    reinterpret_cast<std::byte*>(&all[1])[bit / 8] ^= std::byte{1} << bit % 8;
    if (find_damaged(all) != 1) FAIL("bit " << bit);
  }
}

TEST_CASE("Handshake.ARecordOfBeforeChecksumsIsAnotherVersionAndNoDamage") {
  auto all = arrived(2);
  all[1].wire_version = 2;
  all[1].checksum = 0;
  CHECK(find_damaged(all) == -1);
  CHECK(says(verdict_of(all), "runs another version of sdp4bit"));
  all[1].wire_version = kWireVersion;  // what flipped was the version, or the checksum is lost
  CHECK(find_damaged(all) == 1);
}

TEST_CASE("Handshake.EveryWireVariableFits") {
  std::size_t shaping = 0;
  for (const Option& option : option_table()) shaping += option.shapes_wire;
  CHECK(shaping <= kMostWireVariables);
  CHECK(records(1)[0].variable_count == shaping);
}

TEST_CASE("Handshake.ADifferenceNamesVariableRankAndBothValues") {
  for (const Option& option : option_table()) {
    if (!option.shapes_wire) continue;
    const std::string text = test::other_value(option, Config{});
    CAPTURE(option.name);
    REQUIRE(text != "");
    Config other;
    REQUIRE(option.parse(text, other));
    auto all = records(4);
    const std::uint64_t host = all[2].host_hash;
    all[2] = make_record(other, kYes, 2);
    all[2].host_hash = host;
    const Verdict verdict = verdict_of(all);
    CHECK(verdict.agreement == Agreement::off);
    CHECK(verdict.worth_a_line);
    CHECK(says(verdict, option.name));
    CHECK(says(verdict, "rank 2"));
    CHECK(says(verdict, "\"" + option.print(Config{}) + "\""));
    CHECK(says(verdict, "\"" + option.print(other) + "\""));
  }
}

TEST_CASE("Handshake.ALongValueThatDiffersBehindItsShownPartIsSeen") {
  Config one, other;
  one.comms = other.comms = CommSelection{};
  one.comms.names = {"a_long_pattern_that_does_not_fit_the_record_1"};
  other.comms.names = {"a_long_pattern_that_does_not_fit_the_record_2"};
  auto all = records(2);
  all[0] = make_record(one, kYes, 0);
  all[1] = make_record(other, kYes, 1);
  CHECK(says(verdict_of(all, one), "SDP4BIT_COMMS"));
}

TEST_CASE("Handshake.WhatAPeerSentCannotControlTheTerminal") {
  auto all = records(2);
  all[1].variables[3].digest ^= 1;
  std::memcpy(all[1].variables[3].text, "\n\x1b[2Jx", 6);
  const Verdict verdict = verdict_of(all);
  CHECK(says(verdict, "??[2Jx"));
  CHECK_FALSE(says(verdict, "\n"));
}

TEST_CASE("Handshake.ANoOfOneRankIsANoForAll") {
  const auto without = [](std::uint32_t bit) {
    auto all = records(4);
    all[3].bits &= ~bit;
    return verdict_of(all);
  };
  for (const std::uint32_t bit : {Bits::enabled, Bits::selected, Bits::blocking, Bits::workspace_ready}) {
    CHECK(without(bit).agreement == Agreement::off);
  }
  CHECK(says(without(Bits::workspace_ready), "rank 3 could not allocate"));
  CHECK(says(without(Bits::blocking), "rank 3"));
  CHECK(says(without(Bits::selected), "rank 3"));
}

TEST_CASE("Handshake.AnotherVersionIsNoPartner") {
  auto all = records(2);
  all[1].wire_version = 99;
  const Verdict verdict = verdict_of(all);
  CHECK(verdict.agreement == Agreement::off);
  CHECK(says(verdict, "version"));
}

TEST_CASE("Handshake.AbortIsForDifferencesOnly") {
  auto all = records(2, kYes | Bits::abort_on_mismatch);
  all[1].variables[0].digest ^= 1;
  CHECK(verdict_of(all).abort);
  auto unselected = records(2, (kYes | Bits::abort_on_mismatch) & ~Bits::selected);
  CHECK_FALSE(verdict_of(unselected).abort);
}

TEST_CASE("Handshake.AutoWantsMoreThanOneNode") {
  auto all = records(2);  // ranks 0 and 1 share a host
  CHECK(verdict_of(all).agreement == Agreement::off);
  Config everything;
  everything.comms.automatic = false;
  for (auto& record : all) {
    record = make_record(everything, kYes, 0);
    record.host_hash = 1;
  }
  CHECK(verdict_of(all, everything).agreement == Agreement::on);
  CHECK_FALSE(verdict_of(all, everything).job_ranks_differ);  // both said 0
}

TEST_CASE("Handshake.NamesAndSizesTellDataParallelCommunicators") {
  const auto taken = [](const char* name, std::uint32_t ranks, std::int64_t job, bool part = true) {
    return selected_by_identity(CommSelection{},
                                {.name = name, .ranks = ranks, .job_size = job, .part = part});
  };
  CHECK(taken("DATA_PARALLEL_GROUP_WITH_CP:12", 4, 16));
  CHECK(taken("EXPERT_DATA_PARALLEL_GROUP", 4, 16));
  CHECK_FALSE(taken("TENSOR_MODEL_PARALLEL_GROUP", 16, 16));
  CHECK_FALSE(taken("TENSOR_AND_DATA_PARALLEL_GROUP", 8, 16));
  CHECK_FALSE(taken("CONTEXT_PARALLEL_GROUP", 8, 16));
  CHECK_FALSE(taken("PIPELINE_MODEL_PARALLEL_GROUP", 8, 16));
  for (const char* name :
       {"mesh_dp", "mesh_dp_shard:7", "mesh_dp_shard_cp", "mesh_dp_shard_mod_ep", "mesh_fsdp"})
    CHECK(taken(name, 4, 16));
  for (const char* name : {"mesh_tp", "mesh_tp:7", "mesh_dp_tp", "mesh_cp", "mesh_ep", "mesh_pp", "mesh_etp"})
    CHECK_FALSE(taken(name, 16, 16));
  CHECK_FALSE(taken("mesh_http", 4, 16));
  CHECK(taken("mesh_http", 16, 16));
  CHECK_FALSE(taken("", 8, 16));
  CHECK(taken("", 16, 16));
  CHECK(taken("", 8, -1, false));
  CHECK_FALSE(taken("", 8, -1, true));
}

TEST_CASE("Handshake.PatternsAndRanksNarrowTheSelection") {
  CommSelection selection;
  selection.automatic = false;
  CHECK(selected_by_identity(selection, {.name = "any", .ranks = 2}));
  selection.names = {"dp*"};
  CHECK(selected_by_identity(selection, {.name = "dp_7", .ranks = 2}));
  CHECK_FALSE(selected_by_identity(selection, {.name = "tp_7", .ranks = 2}));
  selection.no_names = {"*_7"};
  CHECK_FALSE(selected_by_identity(selection, {.name = "dp_7", .ranks = 2}));
  selection = CommSelection{};
  selection.automatic = false;
  selection.least_ranks = 4;
  CHECK_FALSE(selected_by_identity(selection, {.name = "", .ranks = 3}));
}

TEST_CASE("Handshake.AHintOfAllRanksTakesThePlaceOfName") {
  constexpr std::uint32_t kHint = Bits::hinted | Bits::hint_weights;
  const Verdict weights = verdict_of(records(4, (kYes & ~Bits::selected) | kHint));
  CHECK(weights.agreement == Agreement::on);
  CHECK(weights.carried == Carried{.gradients = false, .weights = true});
  const Verdict both = verdict_of(records(4, kYes | kHint | Bits::hint_gradients));
  CHECK(both.carried == Carried{});
  const Verdict neither = verdict_of(records(4, kYes | Bits::hinted));
  CHECK(neither.agreement == Agreement::off);
  CHECK(says(neither, "neither gradients nor weights"));
}

TEST_CASE("Handshake.AHintOfSomeRanksCountsForNothing") {
  auto all = records(4, (kYes & ~Bits::selected) | Bits::hinted | Bits::hint_weights);
  all[3].bits &= ~Bits::hinted;
  CHECK(verdict_of(all).agreement == Agreement::off);
  all = records(4);
  all[1].bits |= Bits::hinted;
  CHECK(verdict_of(all).agreement == Agreement::on);
  CHECK(verdict_of(all).carried == Carried{});
}

TEST_CASE("Handshake.RanksThatHintDifferentlyCarryWhatAllSaid") {
  auto all = records(4, kYes | Bits::hinted | Bits::hint_weights | Bits::hint_gradients);
  all[2].bits &= ~Bits::hint_gradients;
  CHECK(verdict_of(all).carried == Carried{.gradients = false, .weights = true});
}

}  // namespace
}  // namespace sdp4bit

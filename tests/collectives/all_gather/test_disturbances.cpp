// What a program may do to its receive buffers: ranks stay equal bit for bit, and the bound comes back.
#include "gather_checks.h"

using namespace sdp4bit::test;

namespace {

constexpr int kEveryone = -1;
constexpr int kGarbage = 16, kMove = 22, kExchange = 28;  // steps

/// One after the other, each on rank `who` or on all.
GatherJob disturbed_job(const char* ledger, ncclDataType_t type, int who) {
  GatherJob job{.type = type, .steps = 40};
  // The exchange is a jump: read four calls later, it makes a round of two calls native.
  job.recovery = 2;
  job.environment = {{"SDP4BIT_WEIGHT_LEDGER", ledger}};
  job.before = [who](int rank, int step, Disturbance& buffers) {
    const bool mine = who == kEveryone || rank == who;
    if (step == kGarbage && mine) {
      buffers.fill(0, std::byte{0xff});  // NaN in every element
      buffers.scribble(1);
    }
    if (step == kGarbage + 2 && mine) buffers.fill(1, std::byte{0});
    if (step == kMove && mine) buffers.move(1);
    if (step == kMove + 1 && mine) buffers.move(0);
    if (step == kExchange) {
      for (const int buffer : {0, 1}) buffers.expect_jump(buffer);
      if (mine) buffers.exchange(0, 1);
    }
  };
  return job;
}

void require_recovery(const char* ledger, ncclDataType_t type, int who) {
  CAPTURE(ledger, type, who);
  const GatherJob job = disturbed_job(ledger, type, who);
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, all_but_learning(job) - 2);
  for (const std::string& log : result.logs) CHECK(occurrences(log, "one round native") == 1);
}

}  // namespace

TEST_CASE("Disturbances.GarbageMovesAndExchangesOnOneRank") {
  require_recovery("node", ncclBfloat16, 1);
  require_recovery("full", ncclFloat16, 3);
}

TEST_CASE("Disturbances.GarbageMovesAndExchangesOnAllRanks") {
  require_recovery("node", ncclFloat16, kEveryone);
  require_recovery("full", ncclBfloat16, kEveryone);
}

TEST_CASE("Disturbances.OnAnyRank", "[.slow]") {
  for (const char* ledger : {"node", "full"}) {
    for (const ncclDataType_t type : {ncclBfloat16, ncclFloat16}) {
      for (int who = kEveryone; who < 4; ++who) require_recovery(ledger, type, who);
    }
  }
}

TEST_CASE("Disturbances.WhatIsLearntAgainIsNoPartOfTheOldLedger") {
  // Other weights at every step lead back to learning; then each gather has an address of its own, so slots
  // are numbered beyond those of the ledger that is still allocated.
  GatherJob job{.count = 20000, .buffers = 1, .steps = 60, .recovery = 5};
  job.before = [](int, int step, Disturbance& buffers) {
    if (step >= 14) buffers.reload(0);
    if (step >= 40) buffers.move(0);
  };
  const GatherResult result = run(job);
  require_agreement(job, result);
  for (const std::string& log : result.logs) CHECK(occurrences(log, "learning again") == 1);
}

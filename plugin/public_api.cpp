// The functions of sdp4bit.h.
#include <sdp4bit/sdp4bit.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "plugin/comm_state.h"
#include "plugin/export.h"
#include "plugin/handshake.h"
#include "plugin/late_binding.h"
#include "plugin/log.h"
#include "plugin/options.h"
#include "plugin/public_answer.h"
#include "plugin/real_nccl.h"
#include "plugin/route.h"
#include "plugin/stats_snapshot.h"
#include "plugin/stats_text.h"

using namespace sdp4bit;

namespace {

std::optional<Collective> collective_of(const char* name) {
  for (const Collective collective : kCollectives) {
    if (name && std::strcmp(name, collective_name(collective)) == 0) return collective;
  }
  return std::nullopt;
}

std::optional<CommCounts> counts_of(void* communicator) {
  if (!communicator) return take_snapshot().total;
  const auto comm = known_comm(static_cast<ncclComm_t>(communicator));
  if (!comm) return std::nullopt;
  return snapshot_of(comm->stats);
}

sdp4bitStatistics statistics_of(const CommCounts& counts, Collective collective) {
  const FunctionCounts& function = counts.of(collective);
  return {.size = sizeof(sdp4bitStatistics),
          .calls = function.all_calls(),
          .compressed_calls = function.of(Reason::compressed),
          .captured_calls = function.of(Counter::captured_calls),
          .executed_calls = function.of(Counter::executed_calls),
          .elements = function.of(Counter::elements),
          .bytes_given = function.of(Counter::bytes_given),
          .compressed_bytes_given = function.of(Counter::compressed_bytes_given),
          .native_bytes_in_node = function.of(Counter::native_bytes_in_node),
          .native_bytes_between_nodes = function.of(Counter::native_bytes_between_nodes),
          .sent_bytes_in_node = function.of(Counter::sent_bytes_in_node),
          .sent_bytes_between_nodes = function.of(Counter::sent_bytes_between_nodes),
          .sends = function.of(Counter::sends),
          .gathers = function.of(Counter::gathers),
          .nonfinite_groups_sent = function.of(Counter::nonfinite_groups_sent),
          .nonfinite_groups_received = function.of(Counter::nonfinite_groups_received),
          .workspace_bytes = counts.workspace_bytes,
          .ledger_bytes = counts.ledger_bytes(),
          .sample_bytes = counts.sample_bytes(),
          .record_bytes = counts.record_bytes,
          .checksums_verified = function.of(Counter::checksums_verified),
          .checksums_failed = function.of(Counter::checksums_failed)};
}

/// With what the ranks agreed on, where that is the reason, and the stages of weights where those are.
std::string why_native(const CommCounts& counts, Collective collective) {
  const Reason reason = counts.of(collective).last_reason;
  if (reason == Reason::count_) return "no call yet";
  std::string text = reason_name(reason);
  if (reason == Reason::agreement_off) text += ": " + counts.identity.why;
  if (reason == Reason::weight_native) {
    for (const ClassCounts& gathers : counts.classes) {
      text += (&gathers == &counts.classes.front() ? ": " : "; ") + std::to_string(gathers.count) +
              " elements " + gathers.stage + " (" + gathers.last_event + ")";
    }
  }
  return text;
}

}  // namespace

SDP4BIT_EXPORT const char* sdp4bitVersion(void) {
  return SDP4BIT_VERSION;
}

SDP4BIT_EXPORT size_t sdp4bitOptionsMarkdown(char* buffer, size_t capacity) {
  return give_text(buffer, capacity, options_markdown);
}

SDP4BIT_EXPORT size_t sdp4bitOptionsInForce(char* buffer, size_t capacity) {
  return give_text(buffer, capacity, [] { return options_in_force(config()); });
}

SDP4BIT_EXPORT size_t sdp4bitStatisticsJson(char* buffer, size_t capacity) {
  return give_text(buffer, capacity, stats_json);
}

SDP4BIT_EXPORT size_t sdp4bitStatisticsPrometheus(char* buffer, size_t capacity) {
  return give_text(buffer, capacity, stats_prometheus);
}

SDP4BIT_EXPORT int sdp4bitGetCalls(const char* collective, uint64_t* all, uint64_t* compressed) {
  return answer([&] {
    const auto function = collective_of(collective);
    if (!function) return -1;
    const FunctionCounts counts = take_snapshot().total.of(*function);
    if (all) *all = counts.all_calls();
    if (compressed) *compressed = counts.of(Reason::compressed);
    return 0;
  });
}

SDP4BIT_EXPORT int sdp4bitGetStatistics(void* communicator, const char* collective,
                                        sdp4bitStatistics* statistics) {
  return answer([&] {
    const auto function = collective_of(collective);
    const auto counts = counts_of(communicator);
    if (!function || !counts || !statistics || statistics->size < sizeof statistics->size) return -1;
    sdp4bitStatistics known = statistics_of(*counts, *function);
    known.size = std::min(statistics->size, sizeof known);
    std::memcpy(statistics, &known, known.size);
    return 0;
  });
}

SDP4BIT_EXPORT int sdp4bitGetOutcome(void* communicator, const char* collective, size_t index,
                                     const char** name, uint64_t* calls) {
  return answer([&] {
    const auto function = collective_of(collective);
    const auto counts = counts_of(communicator);
    if (!function || !counts || index >= kReasonCount) return -1;
    if (name) *name = reason_name(static_cast<Reason>(index));
    if (calls) *calls = counts->of(*function).calls[index];
    return 0;
  });
}

SDP4BIT_EXPORT size_t sdp4bitWhyNative(void* communicator, const char* collective, char* buffer,
                                       size_t capacity) {
  return give_text(buffer, capacity, [&] {
    const auto function = collective_of(collective);
    const auto counts = communicator ? counts_of(communicator) : std::nullopt;
    return function && counts ? why_native(*counts, *function) : std::string{};
  });
}

SDP4BIT_EXPORT int sdp4bitTakeCalls(const char* door) {
  try {
    const std::string name = door ? door : "";
    return take_calls(name == "net"        ? Door::net_plugin
                      : name == "profiler" ? Door::profiler_plugin
                                           : Door::program);
  } catch (const std::exception& error) {
    log_error("no calls are taken: %s", error.what());
    return -1;
  }
}

SDP4BIT_EXPORT int sdp4bitHint(void* communicator, unsigned carries) {
  const auto handle = static_cast<ncclComm_t>(communicator);
  const Caller caller{.address = SDP4BIT_CALLER, .comm = handle};
  return answer([&] {
    using Bits = HandshakeRecord::Bits;
    if (!handle) return -1;
    const WithNccl nccl(nccl_for(caller));
    const auto comm = find_comm(handle);
    if (!comm || carries > (SDP4BIT_CARRIES_GRADIENTS | SDP4BIT_CARRIES_WEIGHTS)) return -1;
    if (comm->handshake_started.load()) return 1;
    comm->hint.store(Bits::hinted | (carries & SDP4BIT_CARRIES_GRADIENTS ? Bits::hint_gradients : 0u) |
                     (carries & SDP4BIT_CARRIES_WEIGHTS ? Bits::hint_weights : 0u));
    return 0;
  });
}

SDP4BIT_EXPORT int sdp4bitResetWeights(void* communicator) {
  return answer([&] {
    const auto comm = communicator ? known_comm(static_cast<ncclComm_t>(communicator)) : nullptr;
    if (!comm) return -1;
    comm->resets_asked.fetch_add(1);
    return 0;
  });
}

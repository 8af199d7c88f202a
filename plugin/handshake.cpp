// What a rank says, and the verdict: pure functions, equal on all ranks.
#include "plugin/handshake.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <set>

#include "kernels/checksum.h"

namespace sdp4bit {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char character) { return static_cast<char>(std::tolower(character)); });
  return text;
}

bool contains_any(const std::string& text, std::span<const char* const> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

/// The name of the `index`-th variable that shapes the wire.
const char* wire_variable_name(std::size_t index) {
  for (const Option& option : option_table()) {
    if (option.shapes_wire && index-- == 0) return option.name;
  }
  return "?";
}

std::string shown(const HandshakeRecord::Variable& variable) {
  std::string text(variable.text, ::strnlen(variable.text, kValueText));
  // It came over the network and goes into a line of the log.
  for (char& each : text) {
    if (each < ' ' || each > '~') each = '?';
  }
  return text.size() < kValueText ? text : text + "...";
}

/// Names the first variable in which a rank differs from rank 0, or nothing.
std::string find_difference(std::span<const HandshakeRecord> records) {
  const HandshakeRecord& first = records.front();
  for (std::size_t rank = 1; rank < records.size(); ++rank) {
    const HandshakeRecord& other = records[rank];
    if (other.magic != first.magic || other.wire_version != first.wire_version ||
        other.variable_count != first.variable_count) {
      return "rank " + std::to_string(rank) + " runs another version of sdp4bit than rank 0 (wire version " +
             std::to_string(other.wire_version) + " and " + std::to_string(first.wire_version) + ")";
    }
    for (std::size_t v = 0; v < first.variable_count && v < kMostWireVariables; ++v) {
      if (other.variables[v].digest == first.variables[v].digest) continue;
      return std::string(wire_variable_name(v)) + " is \"" + shown(first.variables[v]) +
             "\" on rank 0 and \"" + shown(other.variables[v]) + "\" on rank " + std::to_string(rank) +
             (shown(first.variables[v]) == shown(other.variables[v]) ? ", which differ further on" : "") +
             "; set it alike on all ranks";
    }
  }
  return {};
}

/// Words are what stands between characters that are neither letters nor digits.
bool has_any_word(const std::string& text, std::span<const char* const> words) {
  const auto inside = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (auto first = text.begin(); first != text.end();) {
    const auto end = std::find_if_not(first, text.end(), inside);
    const std::string word(first, end);
    if (std::any_of(words.begin(), words.end(), [&](const char* wanted) { return word == wanted; }))
      return true;
    first = std::find_if(end, text.end(), inside);
  }
  return false;
}

/// The first rank whose record lacks a bit, -1 if none does.
std::int64_t rank_without(std::span<const HandshakeRecord> records, std::uint32_t bit) {
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (!(records[rank].bits & bit)) return static_cast<std::int64_t>(rank);
  }
  return -1;
}

bool all_have(std::span<const HandshakeRecord> records, std::uint32_t bit) {
  return rank_without(records, bit) < 0;
}

/// As it is sent: 0 says that there is none.
std::uint64_t checksum_of_record(const HandshakeRecord& record) {
  const std::uint64_t sum = checksum_of(&record, sizeof record, offsetof(HandshakeRecord, checksum));
  return sum == 0 ? 1 : sum;
}

bool all_differ(std::span<const HandshakeRecord> records) {
  std::set<std::int64_t> seen;
  return std::all_of(records.begin(), records.end(), [&](const HandshakeRecord& record) {
    return record.job_rank >= 0 && seen.insert(record.job_rank).second;
  });
}

}  // namespace

bool wants_workspace(const OwnAnswer& own) {
  constexpr std::uint32_t kCarries = HandshakeRecord::hint_gradients | HandshakeRecord::hint_weights;
  return own.enabled && (own.selected || (own.hint & kCarries) != 0) && own.blocking;
}

std::uint32_t answer_bits(const OwnAnswer& own, bool held) {
  using Bits = HandshakeRecord::Bits;
  return (own.enabled ? Bits::enabled : 0u) | (own.selected ? Bits::selected : 0u) |
         (own.blocking ? Bits::blocking : 0u) | (own.pads_gradients ? Bits::garbage_padding : 0u) |
         (own.abort_on_mismatch ? Bits::abort_on_mismatch : 0u) | own.hint |
         (!wants_workspace(own) || held ? Bits::workspace_ready : 0u);
}

HandshakeRecord make_record(const Config& config, std::uint32_t bits, std::int64_t job_rank_of_comm) {
  HandshakeRecord record{};
  record.magic = kMagic;
  record.wire_version = kWireVersion;
  record.bits = bits;
  record.host_hash = host_hash();
  record.job_rank = job_rank_of_comm;
  for (const Option& option : option_table()) {
    if (!option.shapes_wire) continue;
    HandshakeRecord::Variable& variable = record.variables[record.variable_count++];
    const std::string text = option.print(config);
    variable.digest = hash_text(text);
    text.copy(variable.text, kValueText);
  }
  record.checksum = checksum_of_record(record);
  return record;
}

std::int64_t find_damaged(std::span<const HandshakeRecord> records) {
  constexpr std::uint16_t kFirstWithChecksum = 3;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const HandshakeRecord& record = records[rank];
    const bool whole = record.checksum == 0 ? record.wire_version < kFirstWithChecksum
                                            : record.checksum == checksum_of_record(record);
    if (!whole) return static_cast<std::int64_t>(rank);
  }
  return -1;
}

bool selected_by_identity(const CommSelection& selection, const CommIdentity& comm) {
  const auto named = [&](const std::string& pattern) { return matches(pattern, comm.name); };
  if (std::any_of(selection.no_names.begin(), selection.no_names.end(), named)) return false;
  if (!selection.names.empty() && std::none_of(selection.names.begin(), selection.names.end(), named))
    return false;
  if (comm.ranks < selection.least_ranks) return false;
  if (!selection.automatic) return true;

  constexpr std::array kOther{"tensor", "sequence", "context", "expert_model", "pipeline", "model_parallel"};
  constexpr std::array kData{"data_parallel", "data-parallel", "default_pg", "fsdp"};
  // Dimensions of PyTorch's device meshes: "mesh_tp", "mesh_dp_shard". Data parallelism is often laid over
  // those of contexts and experts ("dp_shard_cp"), never over the others.
  constexpr std::array kOtherWords{"tp", "sp", "pp", "etp"};
  constexpr std::array kDataWords{"dp", "ddp"};
  constexpr std::array kSharedWords{"cp", "ep"};
  const std::string name = lower(comm.name);
  if (contains_any(name, kOther) || has_any_word(name, kOtherWords)) return false;
  if (contains_any(name, kData) || has_any_word(name, kDataWords)) return true;
  if (has_any_word(name, kSharedWords)) return false;
  if (comm.job_size > 0) return comm.ranks == static_cast<std::uint64_t>(comm.job_size);
  return !comm.part;  // no launcher says how large the job is: take what was not split off
}

Verdict judge(std::span<const HandshakeRecord> records, const Topology& topology, const Config& config) {
  using Bits = HandshakeRecord::Bits;
  Verdict verdict;
  verdict.job_ranks_differ = all_differ(records);
  const bool abort_wanted = std::any_of(records.begin(), records.end(), [](const HandshakeRecord& record) {
    return (record.bits & Bits::abort_on_mismatch) != 0;
  });
  if (std::string difference = find_difference(records); !difference.empty()) {
    verdict.reason = std::move(difference);
    verdict.abort = abort_wanted;
    return verdict;
  }
  verdict.checks = config.check && all_have(records, Bits::blocking);
  if (rank_without(records, Bits::enabled) >= 0) {
    verdict.reason = "SDP4BIT_ENABLE=0";
    verdict.worth_a_line = false;
    return verdict;
  }
  if (const std::int64_t rank = rank_without(records, Bits::blocking); rank >= 0) {
    verdict.reason =
        "rank " + std::to_string(rank) +
        " created the communicator with blocking=0; communicators that do not block stay with NCCL";
    return verdict;
  }
  // A hint counts where all ranks gave one: then it says more than a name does.
  const bool hinted = all_have(records, Bits::hinted);
  if (hinted) {
    verdict.carried = {.gradients = all_have(records, Bits::hint_gradients),
                       .weights = all_have(records, Bits::hint_weights)};
    if (verdict.carried == Carried{.gradients = false, .weights = false}) {
      verdict.reason = "the program says that it carries neither gradients nor weights";
      verdict.worth_a_line = false;
      return verdict;
    }
  }
  if (const std::int64_t rank = hinted ? -1 : rank_without(records, Bits::selected); rank >= 0) {
    const bool on_none = std::none_of(records.begin(), records.end(), [](const HandshakeRecord& record) {
      return (record.bits & Bits::selected) != 0;
    });
    verdict.reason =
        (on_none ? std::string("its name and size do not make it data parallel")
                 : "rank " + std::to_string(rank) + " does not take it, by its name or the job's size") +
        " for SDP4BIT_COMMS=" + option_value("SDP4BIT_COMMS", config) +
        "; to compress it set SDP4BIT_COMMS=spans-nodes, name:PATTERN or all";
    verdict.worth_a_line = !on_none || topology.node_count > 1;
    return verdict;
  }
  if ((config.comms.automatic || config.comms.spans_nodes) && topology.node_count == 1) {
    verdict.reason = "all its ranks are on one node; to compress it anyway set SDP4BIT_COMMS=all";
    verdict.worth_a_line = false;
    return verdict;
  }
  if (const std::int64_t rank = rank_without(records, Bits::workspace_ready); rank >= 0) {
    verdict.reason = "rank " + std::to_string(rank) + " could not allocate its workspace of " +
                     option_value("SDP4BIT_WORKSPACE", config) +
                     " bytes; free device memory or set SDP4BIT_WORKSPACE lower";
    verdict.abort = abort_wanted;
    return verdict;
  }
  verdict.gradients_native = !config.gradients_padded &&
                             std::any_of(records.begin(), records.end(), [](const HandshakeRecord& record) {
                               return (record.bits & Bits::garbage_padding) != 0;
                             });
  verdict.agreement = Agreement::on;
  return verdict;
}

}  // namespace sdp4bit

// Descriptions of calls, field by field.
#include "plugin/call_description.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "kernels/checksum.h"

namespace sdp4bit {
namespace {

constexpr std::uint32_t kOfTheProgram = ncclNumOps;

std::string number_text(std::uint64_t value) {
  return std::to_string(value);
}

template <std::size_t Size>
std::string word(const std::array<const char*, Size>& words, std::uint64_t value) {
  return value < Size ? words[value] : "number " + std::to_string(value);
}

std::string collective_text(std::uint64_t value) {
  return word(std::array{"ReduceScatter", "AllGather"}, value);
}

std::string type_text(std::uint64_t value) {
  return word(std::array{"int8", "uint8", "int32", "uint32", "int64", "uint64", "fp16", "fp32", "fp64",
                         "bf16", "fp8e4m3", "fp8e5m2"},
              value);
}

std::string op_text(std::uint64_t value) {
  return word(std::array{"sum", "prod", "max", "min", "avg", "one that the program made"}, value);
}

std::string reason_text(std::uint64_t value) {
  return value < kReasonCount ? reason_name(static_cast<Reason>(value)) : number_text(value);
}

struct Field {
  const char* name;
  std::uint64_t (*value)(const CallDescription&);
  std::string (*text)(std::uint64_t);
};

template <auto Member>
constexpr Field field(const char* name, std::string (*text)(std::uint64_t) = number_text) {
  return {name, [](const CallDescription& call) -> std::uint64_t { return call.*Member; }, text};
}

// The program's own first: what the library makes of a call follows from them.
constexpr std::array kFields{
    field<&CallDescription::number>("the call's number"),
    field<&CallDescription::collective>("the function", collective_text),
    field<&CallDescription::count>("count"),
    field<&CallDescription::type>("the type", type_text),
    field<&CallDescription::op>("the operation", op_text),
    field<&CallDescription::in_group>("the number of calls in its group"),
    field<&CallDescription::place>("its place in its group"),
    field<&CallDescription::reason>("the plan", reason_text),
    field<&CallDescription::gather>("the kind of an AllGather"),
    field<&CallDescription::weight_class>("the class of an AllGather"),
    field<&CallDescription::slots>("the number of slots of its class"),
    field<&CallDescription::stage>("the stage of its class"),
};

/// "rank 3", "ranks 0, 1, 2 and 5 more".
std::string ranks_text(const std::vector<std::size_t>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return ranks.size() > kShown ? text + " and " + std::to_string(ranks.size() - kShown) + " more" : text;
}

std::string described(const CallDescription& call) {
  return "call " + std::to_string(call.number) + " of the communicator, " + collective_text(call.collective) +
         " of " + std::to_string(call.count) + " " + type_text(call.type);
}

}  // namespace

std::uint32_t described_op(ncclRedOp_t op) {
  return static_cast<std::uint32_t>(std::min<int>(op, kOfTheProgram));
}

std::uint64_t checksum_of_description(const CallDescription& call) {
  return checksum_of(&call, sizeof call, offsetof(CallDescription, checksum));
}

std::int64_t find_damaged(std::span<const CallDescription> of_ranks) {
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank].checksum != checksum_of_description(of_ranks[rank]))
      return static_cast<std::int64_t>(rank);
  }
  return -1;
}

std::string find_disagreement(std::span<const CallDescription> of_ranks) {
  for (const Field& field : kFields) {
    std::map<std::uint64_t, std::vector<std::size_t>> ranks_of;
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
      ranks_of[field.value(of_ranks[rank])].push_back(rank);
    }
    if (ranks_of.size() <= 1) continue;
    // What most ranks say is likelier to be meant; between equals, what the lowest rank says.
    const auto usual = std::max_element(ranks_of.begin(), ranks_of.end(), [](const auto& a, const auto& b) {
      return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                                : a.second.front() > b.second.front();
    });
    const auto is_first = [&](const auto& a, const auto& b) {
      if (a.first == usual->first || b.first == usual->first) return a.first != usual->first;
      return a.second.front() < b.second.front();
    };
    const auto odd = std::min_element(ranks_of.begin(), ranks_of.end(), is_first);
    const CallDescription& call = of_ranks[usual->second.front()];
    return described(call) + " on " + ranks_text(usual->second) + ": " + field.name + " is " +
           field.text(odd->first) + " on " + ranks_text(odd->second) + " and " + field.text(usual->first) +
           " on " + ranks_text(usual->second);
  }
  return {};
}

}  // namespace sdp4bit

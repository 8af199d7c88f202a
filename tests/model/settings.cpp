// Options as the documentation has them; see settings.h.
#include "settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace sdp4bit::model {
namespace {

std::size_t bytes(const std::string& text) {
  std::size_t used = 0;
  const std::size_t number = std::stoul(text, &used);
  return text.substr(used) == "K" ? number << 10 : text.substr(used) == "M" ? number << 20 : number;
}

CodecSettings codec(const std::string& name) {
  return {name.find('8') == std::string::npos ? 4 : 8, name.starts_with("dither")    ? Rounding::dithered
                                                       : name.starts_with("compand") ? Rounding::companded
                                                       : name.ends_with("-sr")       ? Rounding::stochastic
                                                                                     : Rounding::nearest};
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

/// As a shell's, with `*` alone.
bool matches(const char* pattern, const char* name) {
  if (*pattern == '*') return matches(pattern + 1, name) || (*name && matches(pattern, name + 1));
  return *pattern == *name && (*name == '\0' || matches(pattern + 1, name + 1));
}

/// What a name says of a communicator for SDP4BIT_COMMS=auto.
enum class Speaks { of_data, of_others, of_nothing };

Speaks what_speaks(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const auto says = [&](std::initializer_list<const char*> texts) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](const char* text) { return name.find(text) != std::string::npos; });
  };
  std::set<std::string> words{""};
  std::string word;
  for (const char letter : name + ".") {
    if (std::isalnum(static_cast<unsigned char>(letter))) {
      word += letter;
    } else {
      words.insert(std::exchange(word, ""));
    }
  }
  const auto has_word = [&](std::initializer_list<const char*> wanted) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const char* one) { return words.contains(one); });
  };
  if (says({"tensor", "sequence", "context", "expert_model", "pipeline"}) || has_word({"tp", "sp", "pp"}))
    return Speaks::of_others;
  if (says({"data_parallel", "data-parallel", "default_pg", "fsdp"}) || has_word({"dp"}))
    return Speaks::of_data;
  return has_word({"cp", "ep"}) ? Speaks::of_others : Speaks::of_nothing;
}

/// The codecs that a process takes: two texts can mean the same.
Codecs codecs_of(const Program& program, int process) {
  const auto value = [&](const char* name, const char* otherwise) {
    return program.variable(std::string("SDP4BIT_") + name, process, otherwise);
  };
  const bool paper = value("PRESET", "default") == "paper";
  return {.between_nodes = codec(value("CODEC_INTER", paper ? "int4-sr" : "dither4")),
          .in_node = codec(value("CODEC_INTRA", "int8-sr")),
          .weight = codec(value("CODEC_WEIGHT", paper ? "int4" : "compand4")),
          .gradient_group = bytes(value("GRAD_GROUP", paper ? "128" : "64")),
          .weight_group = bytes(value("WEIGHT_GROUP", paper ? "2048" : "1024")),
          .bfloat16_scale = value("SCALE", paper ? "fp32" : "bf16") == "bf16"};
}

constexpr std::array kCodecVariables{"SDP4BIT_PRESET",       "SDP4BIT_CODEC_INTER", "SDP4BIT_CODEC_INTRA",
                                     "SDP4BIT_CODEC_WEIGHT", "SDP4BIT_GRAD_GROUP",  "SDP4BIT_WEIGHT_GROUP",
                                     "SDP4BIT_SCALE"};

}  // namespace

double CodecSettings::largest_error() const {
  const double levels = (1 << (bits - 1)) - 1;
  switch (rounding) {
    case Rounding::stochastic:
      return (1 + 0x1p-15) / levels;  // noise of 16 bits
    case Rounding::nearest:
      return 0.5 / levels;
    case Rounding::dithered:
      return 0.5 / (levels + 0.5 - 0x1p-10) * (1 + 0x1p-13);  // the hair is that of the noise's 16 bits
    case Rounding::companded:
      return 0.191;  // the outermost level stands at 104 / 128; the difference is rounded to bf16 before
  }
  return 0;
}

Settings settings_of(const Program& program, int process) {
  const auto value = [&](const char* name, const std::string& otherwise) {
    return program.variable(std::string("SDP4BIT_") + name, process, otherwise);
  };
  Settings settings;
  settings.enable = value("ENABLE", "1") == "1";
  const std::string collectives = value("COLLECTIVES", "reduce_scatter,all_gather");
  settings.reduce_scatter = collectives.find("reduce_scatter") != std::string::npos;
  settings.all_gather = collectives.find("all_gather") != std::string::npos;
  settings.comms = value("COMMS", settings.comms);
  settings.min_bytes = bytes(value("MIN_BYTES", "0"));
  settings.gradient_types = value("GRAD_TYPES", settings.gradient_types);
  settings.weight_types = value("WEIGHT_TYPES", settings.weight_types);
  static_cast<Codecs&>(settings) = codecs_of(program, process);
  settings.hadamard = value("HADAMARD", "32") == "32";
  settings.ledger = value("WEIGHT_LEDGER", settings.ledger);
  settings.own_shard = value("OWN_SHARD", settings.own_shard);
  settings.vote = value("WEIGHT_VOTE", "0") == "1";
  settings.refresh = std::stoul(value("WEIGHT_REFRESH", "1000"));
  settings.start_call = std::stoul(value("START_CALL", "0"));
  settings.direct = std::stoi(value("WEIGHT_DIRECT", "0"));
  settings.local_size = std::stoi(value("LOCAL_SIZE", "0"));
  return settings;
}

std::size_t Nodes::place_in_node(int rank) const {
  const std::vector<int>& node = members[static_cast<std::size_t>(node_of[static_cast<std::size_t>(rank)])];
  return static_cast<std::size_t>(std::find(node.begin(), node.end(), rank) - node.begin());
}

Nodes nodes_of(const Program& program, const Communicator& communicator, const Settings& settings) {
  Nodes nodes;
  std::map<int, int> numbers;
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    const int process = program.process_of(communicator.members[static_cast<std::size_t>(rank)]);
    const int host = settings.local_size > 0 ? rank / settings.local_size
                                             : program.processes[static_cast<std::size_t>(process)].node;
    const int node = numbers.try_emplace(host, static_cast<int>(nodes.members.size())).first->second;
    if (static_cast<std::size_t>(node) == nodes.members.size()) nodes.members.emplace_back();
    nodes.node_of.push_back(node);
    nodes.members[static_cast<std::size_t>(node)].push_back(rank);
  }
  nodes.equal = std::all_of(nodes.members.begin(), nodes.members.end(),
                            [&](const auto& node) { return node.size() == nodes.members[0].size(); });
  return nodes;
}

bool same_settings(const Program& program, const Communicator& communicator) {
  const int first = program.process_of(communicator.members[0]);
  for (const int member : communicator.members) {
    if (codecs_of(program, program.process_of(member)) != codecs_of(program, first)) return false;
  }
  for (const Variable& variable : program.variables) {
    // The others are not the library's, or do not shape the wire.
    if (!variable.name.starts_with("SDP4BIT_") || variable.name == "SDP4BIT_LOG") continue;
    if (std::find(kCodecVariables.begin(), kCodecVariables.end(), variable.name) != kCodecVariables.end())
      continue;
    for (const int member : communicator.members) {
      if (program.variable(variable.name, program.process_of(member), "") !=
          program.variable(variable.name, first, ""))
        return false;
    }
  }
  return true;
}

bool selects(const Program& program, const Communicator& communicator, int member) {
  const int process = program.process_of(member);
  const std::string name = has(communicator.named, member) ? communicator.name : "";
  bool any_pattern = false, some_pattern = false, automatic = false;
  for (const std::string& part : parts_of(settings_of(program, process).comms)) {
    if (part.starts_with("!name:") && matches(part.c_str() + 6, name.c_str())) return false;
    if (part.starts_with("ranks>=") && communicator.ranks() < std::stoi(part.substr(7))) return false;
    automatic = automatic || part == "auto";
    if (!part.starts_with("name:")) continue;
    any_pattern = true;
    some_pattern = some_pattern || matches(part.c_str() + 5, name.c_str());
  }
  if (any_pattern && !some_pattern) return false;
  if (!automatic) return true;
  const Speaks speaks = what_speaks(name);
  if (speaks != Speaks::of_nothing) return speaks == Speaks::of_data;
  for (const char* const launcher : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const std::string size = program.variable(launcher, process, "");
    if (!size.empty()) return communicator.ranks() == std::stoi(size);
  }
  return !communicator.part;  // no launcher says how large the job is
}

bool needs_nodes(const Settings& settings) {
  const std::vector<std::string> parts = parts_of(settings.comms);
  return std::any_of(parts.begin(), parts.end(),
                     [](const std::string& part) { return part == "auto" || part == "spans-nodes"; });
}

}  // namespace sdp4bit::model

// Options as the documentation has them; see settings.h.
#include "settings.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

namespace sdp4bit::model {
namespace {

std::size_t bytes(const std::string& text) {
  std::size_t used = 0;
  const std::size_t number = std::stoul(text, &used);
  return text.substr(used) == "K" ? number << 10 : text.substr(used) == "M" ? number << 20 : number;
}

CodecSettings codec(const std::string& name) {
  return {name.starts_with("int8") ? 8 : 4, !name.ends_with("-sr")};
}

bool selected(const Settings& settings, const Communicator& communicator) {
  const std::string& comms = settings.comms;
  if (comms.starts_with("ranks>=")) return communicator.ranks() >= std::stoi(comms.substr(7));
  return comms != "auto" ||
         !communicator.part;  // no launcher says how large the job is, and no name says anything
}

}  // namespace

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
  settings.min_bytes = bytes(value("MIN_BYTES", "1M"));
  settings.gradient_types = value("GRAD_TYPES", settings.gradient_types);
  settings.weight_types = value("WEIGHT_TYPES", settings.weight_types);
  settings.between_nodes = codec(value("CODEC_INTER", "int4-sr"));
  settings.in_node = codec(value("CODEC_INTRA", "int8-sr"));
  settings.weight = codec(value("CODEC_WEIGHT", "int4"));
  settings.gradient_group = bytes(value("GRAD_GROUP", "128"));
  settings.weight_group = bytes(value("WEIGHT_GROUP", "2048"));
  settings.hadamard = value("HADAMARD", "32") == "32";
  settings.bfloat16_scale = value("SCALE", "fp32") == "bf16";
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

bool agrees(const Program& program, const Communicator& communicator) {
  std::set<int> processes;
  for (const int member : communicator.members) processes.insert(program.process_of(member));
  const int first = *processes.begin();
  for (const Variable& variable : program.variables) {
    if (variable.name == "SDP4BIT_LOG") continue;  // does not shape the wire
    for (const int process : processes) {
      if (program.variable(variable.name, process, "") != program.variable(variable.name, first, ""))
        return false;
    }
  }
  const Settings settings = settings_of(program, first);
  if (!settings.enable || !selected(settings, communicator)) return false;
  const bool needs_nodes = settings.comms == "auto" || settings.comms == "spans-nodes";
  return !needs_nodes || nodes_of(program, communicator, settings).count() > 1;
}

}  // namespace sdp4bit::model

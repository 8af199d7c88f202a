// The plan in words: what options and nodes leave of the two paths.
#include "plugin/plan_text.h"

#include "plugin/gradient_layout.h"
#include "plugin/option_values.h"
#include "plugin/presets.h"
#include "plugin/weight_layout.h"

namespace sdp4bit {
namespace {

std::string bits(std::uint32_t count) {
  return std::to_string(count) + " bits";
}

std::string gradients(const Topology& topology, const Config& config, bool native) {
  if (!config.collectives.reduce_scatter) return "gradients native (SDP4BIT_COLLECTIVES)";
  if (native) {
    return "gradients native (DeepSpeed was found, and ZeRO-3 pads them with garbage; SDP4BIT_RS_PADDED=1 "
           "takes them)";
  }
  switch (gradient_path(topology)) {
    case GradientPath::one_node:
      return "gradients " + bits(config.codec_intra.bits) + " in the node";
    case GradientPath::two_levels:
      return "gradients " + bits(config.codec_inter.bits) + " between nodes, " +
             std::to_string(config.codec_intra.bits) + " in a node";
    case GradientPath::one_level:
      break;
  }
  return "gradients " + bits(config.codec_inter.bits) +
         (topology.equal_nodes ? " between nodes" : " between all ranks (nodes differ in size)");
}

std::string why_no_ledger(const Topology& topology, const Config& config) {
  if (config.weight_ledger == WeightLedger::off) return "SDP4BIT_WEIGHT_LEDGER=off";
  return std::string(topology.node_count == 1 ? "one node" : "nodes differ in size") +
         "; SDP4BIT_WEIGHT_LEDGER=full would take them";
}

std::string weights(const Topology& topology, const Config& config) {
  if (!config.collectives.all_gather) return "weights native (SDP4BIT_COLLECTIVES)";
  const bool differences = weight_path(topology, config) != WeightPath::none;
  std::string text;
  if (differences) text = "weight differences " + bits(config.codec_weight.bits);
  if (config.weight_direct != 0) {
    text += std::string(differences ? ", other " : "") + "weights " + bits(config.weight_direct) +
            " without memory";
  }
  return text.empty() ? "weights native (" + why_no_ledger(topology, config) + ")" : text;
}

std::string groups_of(std::uint32_t elements) {
  return ", groups of " + std::to_string(elements);
}

/// What codes whatever is coded; nothing where all is native.
std::string codecs(const Topology& topology, const Config& config, bool gradients_native) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? " " : "; ") + part; };
  if (config.collectives.reduce_scatter && !gradients_native) {
    const std::string inter = kGradientCodecs.print(config.codec_inter),
                      intra = kGradientCodecs.print(config.codec_intra);
    const GradientPath path = gradient_path(topology);
    add((path == GradientPath::one_node     ? intra
         : path == GradientPath::two_levels ? inter + " between nodes, " + intra + " in a node"
                                            : inter) +
        groups_of(config.gradient_group));
  }
  if (config.collectives.all_gather && weight_path(topology, config) != WeightPath::none)
    add(kWeightCodecs.print(config.codec_weight) + groups_of(config.weight_group));
  if (config.collectives.all_gather && config.weight_direct != 0) {
    add("int" + std::to_string(config.weight_direct) + " without memory" +
        groups_of(config.direct_codec().group_size));
  }
  if (text.empty()) return text;
  add(kScales.print(config.scale) + " scales");
  return "; preset " + preset_text(config) + ":" + text;
}

}  // namespace

std::string plan_text(const Topology& topology, const Config& config, bool gradients_native) {
  return gradients(topology, config, gradients_native) + "; " + weights(topology, config) +
         codecs(topology, config, gradients_native);
}

}  // namespace sdp4bit

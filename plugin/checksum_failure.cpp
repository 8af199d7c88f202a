// The text of a failed checksum; see checksum_failure.h.
#include "plugin/checksum_failure.h"

#include "plugin/error.h"
#include "plugin/gradient_layout.h"
#include "plugin/weight_layout.h"

namespace sdp4bit {
namespace {

const char* name_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::gradient_first:
      return "gradients (first exchange)";
    case Exchange::gradient_second:
      return "gradients (between nodes)";
    case Exchange::difference_column:
    case Exchange::difference_all:
      return "weights";
    case Exchange::weights_in_node:
      return "weights passed on in the node";
    case Exchange::weights_passed_on:
      return "weights, which reached another rank of this node damaged,";
    case Exchange::weight_record:
      return "the record of a native gather";
    case Exchange::weight_vote:
      return "a vote of SDP4BIT_WEIGHT_VOTE=1";
    case Exchange::gathered_shard:
      return "weights that NCCL gathered";
    case Exchange::gradient_health:
      return "the health of gradients";
    case Exchange::none:
      break;
  }
  return "a message";
}

/// The rank that sent the part.
std::uint32_t sender_of(Exchange exchange, std::uint32_t part, const Topology& topology) {
  switch (exchange) {
    case Exchange::gradient_first:
      return first_peer(topology, part);
    case Exchange::gradient_second:
      return second_peer(topology, part);
    case Exchange::difference_column:
      return message_senders(WeightPath::node, topology).at(part);
    case Exchange::weights_in_node:
      return local_peers(WeightPath::node, topology).at(part);
    case Exchange::weights_passed_on:
      return staged_senders(WeightPath::node, topology).at(part);
    default:
      return part;
  }
}

}  // namespace

bool is_gradient(Exchange exchange) {
  return exchange == Exchange::gradient_first || exchange == Exchange::gradient_second ||
         exchange == Exchange::gradient_health;
}

std::string describe(const ChecksumFailure& failure, const Topology& topology) {
  const auto exchange = static_cast<Exchange>(failure.exchange);
  const std::string number = std::to_string(failure.call + 1);
  std::string call = is_gradient(exchange) ? "ReduceScatter " + number
                     : failure.class_number == kDirectClass
                         ? "direct AllGather " + number
                         : "AllGather " + number + " of class " + std::to_string(failure.class_number + 1);
  if (exchange == Exchange::gradient_health) call = "look " + number;
  return std::string(name_of(exchange)) + " of rank " +
         std::to_string(sender_of(exchange, failure.part, topology)) + " in " + call + ", chunk " +
         std::to_string(failure.chunk + 1) +
         ": what arrived does not fit its checksum and was not used, the output has NaN in its place; " +
         kFindWhoDamages;
}

}  // namespace sdp4bit

// The model of what a call costs here and with NCCL; see break_even.h.
#include "plugin/break_even.h"

#include <algorithm>
#include <bit>

#include "plugin/gradient_layout.h"
#include "plugin/weight_layout.h"

namespace sdp4bit {
namespace {

using Number = std::uint64_t;

// Speeds in bytes a microsecond. The network is the fastest for which the promise holds: on a slower one
// calls pay earlier.
constexpr Number kNetwork = 12'500;    // of a rank: 100 Gbit/s for each GPU
constexpr Number kLinks = 450'000;     // of a rank, in the node
constexpr Number kMemory = 2'000'000;  // of a GPU

// Times in picoseconds. NCCL's own small calls have its fastest protocol, ours the one of point-to-point
// messages.
constexpr Number kMicrosecond = 1'000'000;
constexpr Number kNativeNetworkHop = 2'700'000, kNativeLinkHop = 600'000;
constexpr Number kNetworkHop = 10 * kMicrosecond, kLinkHop = 3 * kMicrosecond;
constexpr Number kNetworkMessage = kMicrosecond, kLinkMessage = 200'000;  // each further one of an exchange
constexpr Number kLaunch = 3 * kMicrosecond;                              // a kernel, or a further NCCL group

constexpr Number kUnit = 1 << 20;            // bytes of a buffer by which times are compared
constexpr Number kElements = 1 << 13;        // elements by which sizes are: a multiple of every group
constexpr Number kLeast = 256 << 10;         // below it all is latency, which no model knows that well
constexpr Number kLeastInOneNode = 1 << 20;  // where no network is spared, so times say nothing
constexpr Number kRounding = 4 << 10;

/// Picoseconds that `bytes` take.
constexpr Number time_of(Number bytes, Number speed) {
  return bytes * kMicrosecond / speed;
}

/// Bytes of kElements coded elements, headers and padding apart.
Number coded_bytes(const Codec& codec) {
  return kElements * codec.bits / 8 + kElements / codec.group_size * scale_bytes(codec.scale);
}

/// No segment is more than this larger than its share of coded_bytes().
Number most_padding(const Codec& codec) {
  return 2 * kMessageAlign + scale_bytes(codec.scale) + kBlock * codec.bits / 8;
}

/// What travels over one kind of link, of one rank or of all: shards as NCCL would send them, and ours.
struct Traffic {
  Number native_shards;
  Number coded_shards;
  Number fixed_bytes;  // headers, and padding of what is not coded
};

/// Elements of a shard from which headers and padding take at most a quarter of what coding saves; kNeverPays
/// if it saves nothing.
Number elements_that_save(const Traffic& traffic, const Codec& codec, ElementType type) {
  const Number native = kElements * element_bytes(type) * traffic.native_shards;
  const Number coded = coded_bytes(codec) * traffic.coded_shards;
  if (coded >= native) return kNeverPays;
  const Number fixed = traffic.fixed_bytes + traffic.coded_shards * most_padding(codec);
  return (4 * fixed * kElements + (native - coded) - 1) / (native - coded);
}

/// What a call takes beside the bytes that it moves, and what kUnit bytes of its buffer take.
struct Cost {
  Number fixed = 0;
  Number unit = 0;
};

struct Shape {
  Number ranks, nodes, local;  // local: of the largest node
};

Shape shape_of(const Topology& topology) {
  std::size_t local = 1;
  for (const auto& members : topology.members) local = std::max(local, members.size());
  return {topology.ranks, topology.node_count, local};
}

/// Rings; with one rank a node also trees (PAT), if they are faster. `carried`: bytes for each kUnit of the
/// buffer.
Cost native_cost(const Shape& shape, Number carried) {
  const Number rings = (shape.nodes - 1) * kNativeNetworkHop + (shape.ranks - shape.nodes) * kNativeLinkHop;
  const auto steps = static_cast<Number>(std::bit_width(shape.nodes - 1));
  carried -= carried / shape.ranks;
  return {.fixed = shape.local == 1 ? std::min(rings, steps * kNetworkHop) : rings,
          .unit = std::max(time_of(carried, kNetwork * shape.local),
                           shape.local > 1 ? time_of(carried, kLinks) : 0)};
}

Number exchange_time(Number peers, Number hop, Number message) {
  return peers == 0 ? 0 : hop + (peers - 1) * message;
}

Number coded_unit(const Codec& codec, ElementType type) {
  return kUnit / element_bytes(type) / kElements * coded_bytes(codec);
}

/// All ranks with all; the kernels pass over the buffer twice.
Cost one_level_cost(const Shape& shape, Number coded) {
  return {.fixed = exchange_time(shape.ranks - 1, kNetworkHop, kNetworkMessage) + 2 * kLaunch,
          .unit = time_of(coded - coded / shape.ranks, kNetwork) + time_of(2 * kUnit, kMemory)};
}

Cost two_level_cost(const Shape& shape, Number in_node, Number between, Number passes) {
  const Number launches = shape.local > 1 ? 4 : 2;  // kernels, and the second group
  return {.fixed = exchange_time(shape.local - 1, kLinkHop, kLinkMessage) +
                   exchange_time(shape.nodes - 1, kNetworkHop, kNetworkMessage) + launches * kLaunch,
          .unit = time_of(in_node - in_node / shape.local, kLinks) +
                  time_of(between - between / shape.nodes, kNetwork * shape.local) +
                  time_of(passes * kUnit, kMemory)};
}

/// Bytes of the buffer from which a call of ours is the faster one.
Number bytes_that_pay(const Cost& ours, const Cost& native) {
  if (ours.unit >= native.unit) return kNeverPays;
  if (ours.fixed <= native.fixed) return 0;
  return (ours.fixed - native.fixed) * kUnit / (native.unit - ours.unit);
}

/// From elements of a shard and bytes of the buffer, both of which must be reached.
Number threshold(Number elements, Number bytes, Number ranks, ElementType type) {
  if (elements == kNeverPays || bytes == kNeverPays) return kNeverPays;
  return round_up(std::max({elements * ranks * element_bytes(type), bytes, kLeast}), kRounding);
}

Number of_gradients(ElementType type, const Topology& topology, const Config& config) {
  const Shape shape = shape_of(topology);
  const Codec inter = config.inter_codec(), intra = config.intra_codec();
  const Cost native = native_cost(shape, kUnit);
  switch (gradient_path(topology)) {
    case GradientPath::one_node:
      return threshold(elements_that_save({1, 1, sizeof(MessageHeader)}, intra, type), kLeastInOneNode,
                       shape.ranks, type);
    case GradientPath::two_levels: {
      const Number in_node =
          elements_that_save({shape.nodes, shape.nodes, sizeof(MessageHeader)}, intra, type);
      const Number between = elements_that_save({1, 1, sizeof(MessageHeader)}, inter, type);
      const Cost ours = two_level_cost(shape, coded_unit(intra, type), coded_unit(inter, type), 2);
      return threshold(std::max(in_node, between), bytes_that_pay(ours, native), shape.ranks, type);
    }
    case GradientPath::one_level:
      break;
  }
  // Of all ranks together: nodes may differ in size, and NCCL adds up in each node first.
  Traffic between{};
  for (const auto& members : topology.members) {
    between.native_shards += shape.ranks - members.size();
    between.coded_shards += members.size() * (shape.ranks - members.size());
  }
  between.fixed_bytes = between.coded_shards * sizeof(MessageHeader);
  return threshold(elements_that_save(between, inter, type),
                   bytes_that_pay(one_level_cost(shape, coded_unit(inter, type)), native), shape.ranks, type);
}

Number of_weights(ElementType type, const Topology& topology, const Config& config) {
  const Shape shape = shape_of(topology);
  WeightPath path = weight_path(topology, config);
  Codec codec = config.weight_codec();
  if (config.weight_direct != 0) {  // for what the ledger does not take
    const Codec direct = config.direct_codec();
    if (path == WeightPath::none) path = direct_path(topology);
    if (coded_bytes(direct) > coded_bytes(codec)) codec = direct;
  }
  const Number coded = coded_unit(codec, type);
  const Cost native = native_cost(shape, kUnit);
  constexpr Number kHeader = sizeof(MessageHeader);
  if (path == WeightPath::none) return 0;  // none is taken
  if (shape.nodes == 1)
    return threshold(elements_that_save({1, 1, kHeader}, codec, type), kLeastInOneNode, shape.ranks, type);
  if (path == WeightPath::node) {
    // In the node shards travel as with NCCL, each with a header and padding of its own.
    const Number staged = shape.nodes * (shape.local - 1) * (kHeader + kMessageAlign);
    const Traffic all{shape.nodes - 1, shape.nodes - 1, (shape.nodes - 1) * kHeader + staged};
    return threshold(elements_that_save(all, codec, type),
                     bytes_that_pay(two_level_cost(shape, shape.local > 1 ? kUnit : 0, coded, 3), native),
                     shape.ranks, type);
  }
  Cost ours = native_cost(shape, coded);  // an AllGather of NCCL carries the codes
  ours.fixed += 2 * kLaunch;
  ours.unit += time_of(3 * kUnit, kMemory);
  return threshold(elements_that_save({1, 1, kHeader}, codec, type), bytes_that_pay(ours, native),
                   shape.ranks, type);
}

}  // namespace

std::uint64_t break_even_bytes(Collective collective, ElementType type, const Topology& topology,
                               const Config& config) {
  if (topology.ranks <= 1) return 0;
  return collective == Collective::reduce_scatter ? of_gradients(type, topology, config)
                                                  : of_weights(type, topology, config);
}

LeastBytes least_bytes(const Topology& topology, const Config& config) {
  LeastBytes least;
  for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
    for (const ElementType type : {ElementType::float32, ElementType::float16, ElementType::bfloat16}) {
      least.of(collective, type) = config.min_bytes.automatic
                                       ? break_even_bytes(collective, type, topology, config)
                                       : config.min_bytes.bytes;
    }
  }
  return least;
}

}  // namespace sdp4bit

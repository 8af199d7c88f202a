// The rules, in order.
#include "plugin/policy.h"

namespace sdp4bit {

const char* reason_name(Reason reason) {
  switch (reason) {
    case Reason::compressed:
      return "compressed";
    case Reason::zero_count:
      return "zero_count";
    case Reason::one_rank:
      return "one_rank";
    case Reason::capturing:
      return "capturing";
    case Reason::not_agreed_yet:
      return "not_agreed_yet";
    case Reason::agreement_off:
      return "agreement_off";
    case Reason::collective_not_taken:
      return "collective_not_taken";
    case Reason::type_not_taken:
      return "type_not_taken";
    case Reason::op_not_taken:
      return "op_not_taken";
    case Reason::too_small:
      return "too_small";
    case Reason::too_large:
      return "too_large";
    case Reason::before_start_call:
      return "before_start_call";
    case Reason::padded_gradients:
      return "padded_gradients";
    case Reason::unhealthy_gradients:
      return "unhealthy_gradients";
    case Reason::workspace_too_small:
      return "workspace_too_small";
    case Reason::hinted_otherwise:
      return "hinted_otherwise";
    case Reason::weight_native:
      return "weight_native";
    case Reason::simulated:
      return "simulated";
    case Reason::count_:
      break;
  }
  return "unknown";
}

const char* collective_name(Collective collective) {
  return collective == Collective::reduce_scatter ? "reduce_scatter" : "all_gather";
}

std::optional<ElementType> element_type(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return ElementType::float32;
    case ncclFloat16:
      return ElementType::float16;
    case ncclBfloat16:
      return ElementType::bfloat16;
    default:
      return std::nullopt;
  }
}

std::size_t nccl_type_bytes(ncclDataType_t type) {
  switch (static_cast<int>(type)) {
    case ncclInt8:
    case ncclUint8:
    case 10:  // ncclFloat8e4m3, which older headers lack
    case 11:  // ncclFloat8e5m2
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

std::optional<Reason> lasting_reason(const CallFacts& call, const CommFacts& comm, const Config& config) {
  if (call.count == 0) return Reason::zero_count;
  if (comm.ranks <= 1) return Reason::one_rank;
  if (comm.agreement == Agreement::pending) return std::nullopt;
  if (comm.agreement == Agreement::off) return Reason::agreement_off;

  // From here on the options count: the handshake has shown that they are equal.
  const bool gradient = call.collective == Collective::reduce_scatter;
  if (!(gradient ? config.collectives.reduce_scatter : config.collectives.all_gather)) {
    return Reason::collective_not_taken;
  }
  if (!(gradient ? comm.carried.gradients : comm.carried.weights)) return Reason::hinted_otherwise;
  const std::optional<ElementType> type = element_type(call.type);
  if (!type || !(gradient ? config.gradient_types : config.weight_types).has(*type))
    return Reason::type_not_taken;
  if (gradient && call.op == OpKind::other) return Reason::op_not_taken;
  if (gradient && comm.gradients_native) return Reason::padded_gradients;
  // Beyond it the arithmetic of layouts would overflow.
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;
  if (call.count > kMostBytes / (element_bytes(*type) * comm.ranks)) return Reason::too_large;
  if (comm.least && call.count * element_bytes(*type) * comm.ranks < comm.least->of(call.collective, *type))
    return Reason::too_small;
  return std::nullopt;
}

Reason decide(const CallFacts& call, const CommFacts& comm, const Config& config) {
  return decide(call, comm, config, lasting_reason(call, comm, config));
}

Reason decide(const CallFacts& call, const CommFacts& comm, const Config& config,
              std::optional<Reason> lasting) {
  if (lasting == Reason::zero_count || lasting == Reason::one_rank) return *lasting;
  const bool gradient = call.collective == Collective::reduce_scatter;
  if (call.capturing && !(gradient && comm.gradients_before)) return Reason::capturing;
  if (lasting) return *lasting;
  if (comm.agreement == Agreement::pending) return Reason::not_agreed_yet;
  if (comm.calls_before_group < config.start_call) return Reason::before_start_call;
  return Reason::compressed;
}

}  // namespace sdp4bit

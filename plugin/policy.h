// Decides whether a call is taken: a pure function of the call, the communicator's agreed facts, and the
// options.
//
// Every fact here is equal on all ranks, by NCCL's contract or by the handshake. Nothing else may be added.
#pragma once

#include <nccl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/wire_format.h"
#include "plugin/options.h"

namespace sdp4bit {

enum class Collective : std::uint8_t { reduce_scatter, all_gather };
enum class OpKind : std::uint8_t { sum, avg, pre_mul_sum, other };

/// Why a call was taken, or was not. Names for people: reason_name().
enum class Reason : std::uint8_t {
  compressed,
  zero_count,
  one_rank,
  capturing,             // AllGather always; ReduceScatter before an eager call was compressed
  not_agreed_yet,        // before the handshake is read
  agreement_off,         // the handshake said no: see the line in the log
  collective_not_taken,  // SDP4BIT_COLLECTIVES
  type_not_taken,        // SDP4BIT_GRAD_TYPES, SDP4BIT_WEIGHT_TYPES, or no floating-point type of ours
  op_not_taken,
  too_small,            // SDP4BIT_MIN_BYTES
  too_large,            // more than any memory: NCCL has to say no
  before_start_call,    // SDP4BIT_START_CALL
  padded_gradients,     // a framework that leaves garbage in padding (SDP4BIT_RS_PADDED)
  unhealthy_gradients,  // they look like garbage on some rank
  workspace_too_small,  // SDP4BIT_WORKSPACE holds no chunk
  hinted_otherwise,     // the program said on all ranks that the communicator does not carry these
  weight_native,        // AllGather: learning, refresh, or native for good
  simulated,            // ncclGroupSimulateEnd
  count_                // how many there are
};
inline constexpr std::size_t kReasonCount = static_cast<std::size_t>(Reason::count_);
[[nodiscard]] const char* reason_name(Reason reason);
[[nodiscard]] const char* collective_name(Collective collective);

struct CallFacts {
  Collective collective = Collective::reduce_scatter;
  std::size_t count = 0;  // as the call gives it: of the output (ReduceScatter), of the shard (AllGather)
  ncclDataType_t type = ncclFloat32;
  OpKind op = OpKind::sum;  // ReduceScatter
  bool capturing = false;
};

/// What a communicator is for, where the program said so on all ranks.
struct Carried {
  bool gradients = true;
  bool weights = true;
  friend bool operator==(const Carried&, const Carried&) = default;
};

/// From how many bytes on calls are taken, as SDP4BIT_MIN_BYTES counts them; see break_even.h.
struct LeastBytes {
  std::array<std::array<std::uint64_t, 3>, 2> bytes{};  // by function and type
  [[nodiscard]] std::uint64_t& of(Collective collective, ElementType type) {
    return bytes[static_cast<std::size_t>(collective)][static_cast<std::size_t>(type)];
  }
  [[nodiscard]] std::uint64_t of(Collective collective, ElementType type) const {
    return bytes[static_cast<std::size_t>(collective)][static_cast<std::size_t>(type)];
  }
};

enum class Agreement : std::uint8_t { pending, on, off };

struct CommFacts {
  std::uint32_t ranks = 1;
  Agreement agreement = Agreement::pending;
  std::uint64_t calls_before_group = 0;  // launched on the communicator before this outermost group
  bool gradients_native = false;         // their padding may be garbage
  bool gradients_before = false;         // an eager ReduceScatter was compressed on it
  Carried carried = {};                  // agreed
  const LeastBytes* least = nullptr;     // of the agreed topology; nullptr while nothing is agreed
};

/// The reason to pass the call on, or `compressed`. An AllGather that is taken may still be native: the
/// ledger decides.
[[nodiscard]] Reason decide(const CallFacts& call, const CommFacts& comm, const Config& config);
/// The same where lasting_reason() was asked before.
[[nodiscard]] Reason decide(const CallFacts& call, const CommFacts& comm, const Config& config,
                            std::optional<Reason> lasting);
/// Why the call stays native on that communicator from now on, whether it is captured or not: none if that is
/// not known.
[[nodiscard]] std::optional<Reason> lasting_reason(const CallFacts& call, const CommFacts& comm,
                                                   const Config& config);

[[nodiscard]] std::optional<ElementType> element_type(ncclDataType_t type);
/// Of any of NCCL's types; 0 for one that came later.
[[nodiscard]] std::size_t nccl_type_bytes(ncclDataType_t type);

}  // namespace sdp4bit

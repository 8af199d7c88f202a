// Launches of checksums; see checksums.h.
#include "plugin/checksums.h"

#include "plugin/comm_state.h"

namespace sdp4bit {
namespace {

/// Beginning of the memory.
struct Head {
  ChecksumState state;
  FunctionChecksums counts;
};
constexpr std::size_t kSums = round_up(sizeof(Head), kMessageAlign);  // where they lie

}  // namespace

bool Checksums::allocate(std::uint32_t ranks) {
  memory_ = DeviceBuffer::try_allocate(kSums + ranks * sizeof(ChecksumSum));
  return on();
}

void Checksums::seal(const ChecksummedParts& parts, cudaStream_t stream) const {
  if (on()) check(seal_checksums(parts, reinterpret_cast<ChecksumSum*>(memory_.data() + kSums), stream));
}

void Checksums::verify(const CommState& comm, const Arrived& arrived, const ChecksumCall& call,
                       cudaStream_t stream) const {
  if (!on()) return;
  Head& head = *memory_.as<Head>();
  const auto function =
      is_gradient(arrived.exchange) ? &FunctionChecksums::gradients : &FunctionChecksums::weights;
  check(verify_checksums({.parts = arrived.parts,
                          .headers_per_part = arrived.headers_per_part,
                          .flags = arrived.flags,
                          .sums = reinterpret_cast<ChecksumSum*>(memory_.data() + kSums),
                          .state = &head.state,
                          .use = call.use,
                          .exchange = static_cast<std::uint32_t>(arrived.exchange),
                          .passed_on = static_cast<std::uint32_t>(arrived.passed_on),
                          .chunk = arrived.chunk,
                          .call = call.number,
                          .call_counter = call.counter,
                          .class_number = call.class_number,
                          .failure = comm.checksum_failure(),
                          .error = comm.error_flag(),
                          .counts = &(head.counts.*function),
                          .host_counts = &(comm.checksum_counts()->*function)},
                         stream));
}

}  // namespace sdp4bit

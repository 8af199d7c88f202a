// The exchange of descriptions, and the wait for it.
#include "plugin/check_vote.h"

#include <cstring>
#include <span>

#include "plugin/bounded_wait.h"
#include "plugin/comm_state.h"
#include "plugin/real_nccl.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kBytes = sizeof(CallDescription);

}  // namespace

CheckVote::CheckVote(CommState& comm)
    : comm_(comm), device_(kBytes * (1 + comm.ranks)), host_(kBytes * (1 + comm.ranks)) {}

void CheckVote::set(CallDescription description, cudaStream_t stream) {
  description.number = ++last_number_;
  description.checksum = checksum_of_description(description);
  std::memcpy(host_.data(), &description, kBytes);
  stream_ = stream;
}

void CheckVote::launch_step(const Step& step) {
  if (step.step == 0) {
    check(cudaMemcpyAsync(device_.data(), host_.data(), kBytes, cudaMemcpyHostToDevice, step.stream));
  } else {
    check(cudaMemcpyAsync(host_.data() + kBytes, device_.data() + kBytes, comm_.ranks * kBytes,
                          cudaMemcpyDeviceToHost, step.stream));
    arrived_.record(step.stream);
  }
}

void CheckVote::exchange_step(const Step& step) {
  if (step.step != 0) return;
  check(real_nccl().all_gather(device_.data(), device_.data() + kBytes, kBytes, ncclUint8, comm_.handle,
                               step.stream));
}

void CheckVote::read() {
  wait_bounded(comm_, arrived_,
               "the vote of SDP4BIT_CHECK=1 before a call: some rank has not come to this call of the "
               "communicator, or captures it",
               last_number_);
  const std::span of_ranks(reinterpret_cast<const CallDescription*>(host_.data() + kBytes), comm_.ranks);
  if (const std::int64_t rank = find_damaged(of_ranks); rank >= 0) {
    throw Error(ncclRemoteError,
                "what rank " + std::to_string(rank) + " said about call " + std::to_string(last_number_) +
                    " of the communicator (SDP4BIT_CHECK=1) arrived damaged; " + kFindWhoDamages);
  }
  const std::string difference = find_disagreement(of_ranks);
  if (difference.empty()) return;
  throw Error(ncclInvalidUsage, "ranks call differently (SDP4BIT_CHECK=1): " + difference +
                                    "; the call was not made on any rank");
}

}  // namespace sdp4bit

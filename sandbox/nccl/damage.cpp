// What is to be damaged, and notes of what passed; see damage.h.
#include "sandbox/nccl/damage.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "sandbox/nccl/api.h"
#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/extension.h"

namespace sandbox::nccl {
namespace {

struct Plan {
  std::mutex mutex;
  uint64_t countdown = 0;  // receives until the chosen one, 0: none is
  size_t offset = 0;

  const Communicator* communicator = nullptr;  // of the chosen transfer; only compared
  int sender = -1;
  int receiver = -1;
  uint64_t transfers = 0;  // until the chosen one, 0: none is
  uint64_t first = 0;
  std::vector<std::byte> mask;
  uint64_t damaged = 0;

  bool notes = false;
  std::vector<sandboxNcclTransfer> passed;
};

Plan& plan() {
  static auto* const instance = new Plan;  // used by stream threads that may outlive main
  return *instance;
}

}  // namespace

void damage(std::byte* received, size_t bytes) {
  Plan& chosen = plan();
  const std::lock_guard lock(chosen.mutex);
  if (chosen.countdown == 0 || --chosen.countdown > 0) return;
  if (chosen.offset < bytes) received[chosen.offset] ^= std::byte{0xff};
  ++chosen.damaged;
}

void pass_transfer(Communicator& communicator, int sender, std::byte* received, size_t bytes,
                   bool is_collective) {
  Plan& chosen = plan();
  const int receiver = communicator.endpoint().rank();
  if (sender == receiver) return;
  const std::lock_guard lock(chosen.mutex);
  if (chosen.notes) chosen.passed.push_back({sender, receiver, is_collective ? 1 : 0, bytes});
  if (chosen.transfers == 0 || chosen.communicator != &communicator || chosen.sender != sender ||
      chosen.receiver != receiver || --chosen.transfers > 0) {
    return;
  }
  for (size_t i = 0; i < chosen.mask.size() && chosen.first + i < bytes; ++i)
    received[chosen.first + i] ^= chosen.mask[i];
  ++chosen.damaged;
}

}  // namespace sandbox::nccl

using sandbox::nccl::plan;

SANDBOX_NCCL_EXPORT void sandboxNcclDamageReceive(uint64_t count, size_t offset) {
  auto& chosen = plan();
  const std::lock_guard lock(chosen.mutex);
  chosen.countdown = count;
  chosen.offset = offset;
}

SANDBOX_NCCL_EXPORT void sandboxNcclNoteTransfers(int on) {
  auto& chosen = plan();
  const std::lock_guard lock(chosen.mutex);
  chosen.notes = on != 0;
  if (chosen.notes) chosen.passed.clear();
}

SANDBOX_NCCL_EXPORT size_t sandboxNcclGetTransfers(sandboxNcclTransfer* records, size_t capacity) {
  auto& chosen = plan();
  const std::lock_guard lock(chosen.mutex);
  const size_t copied = std::min(capacity, chosen.passed.size());
  std::copy_n(chosen.passed.begin(), copied, records);
  return chosen.passed.size();
}

SANDBOX_NCCL_EXPORT void sandboxNcclDamageTransfer(ncclComm_t comm, int sender, int receiver,
                                                   uint64_t transfer, uint64_t offset, const void* mask,
                                                   size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(mask);
  const auto communicator = sandbox::nccl::find_communicator(comm);
  auto& chosen = plan();
  const std::lock_guard lock(chosen.mutex);
  chosen.communicator = communicator.get();
  chosen.sender = sender;
  chosen.receiver = receiver;
  chosen.transfers = communicator ? transfer : 0;
  chosen.first = offset;
  chosen.mask.assign(first, first + bytes);
}

SANDBOX_NCCL_EXPORT uint64_t sandboxNcclDamaged(void) {
  auto& chosen = plan();
  const std::lock_guard lock(chosen.mutex);
  return chosen.damaged;
}

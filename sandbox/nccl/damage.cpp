// The receive that is to be damaged; see damage.h.
#include "sandbox/nccl/damage.h"

#include <mutex>

#include "sandbox/nccl/api.h"
#include "sandbox/nccl/extension.h"

namespace sandbox::nccl {
namespace {

struct Plan {
  std::mutex mutex;
  uint64_t countdown = 0;  // receives until the chosen one, 0: none is
  size_t offset = 0;
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
}

}  // namespace sandbox::nccl

SANDBOX_NCCL_EXPORT void sandboxNcclDamageReceive(uint64_t count, size_t offset) {
  sandbox::nccl::Plan& chosen = sandbox::nccl::plan();
  const std::lock_guard lock(chosen.mutex);
  chosen.countdown = count;
  chosen.offset = offset;
}

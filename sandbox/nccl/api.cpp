// Handles and the last error.
#include "sandbox/nccl/api.h"

#include <map>
#include <mutex>
#include <vector>

#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/group.h"
#include "sandbox/nccl/settings.h"

// What a program holds. It carries nothing; its address is the key of the table below.
struct ncclComm {
  char unused = 0;
};

namespace sandbox::nccl {
namespace {

struct Handles {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<Communicator>> alive;
  std::vector<ncclComm_t> unused;
  std::string last_error;
};

Handles& handles() {
  static Handles* const one = new Handles;  // threads of the runtime may outlive static destructors
  return *one;
}

}  // namespace

ncclComm_t register_communicator(std::shared_ptr<Communicator> communicator) {
  const std::lock_guard lock(handles().mutex);
  // The last one given back comes first: programs that meet an old address again should do so here.
  auto& unused = handles().unused;
  if (unused.empty()) unused.push_back(new ncclComm);
  const ncclComm_t handle = unused.back();
  unused.pop_back();
  handles().alive[handle] = std::move(communicator);
  return handle;
}

void forget_communicator(ncclComm_t handle) {
  std::shared_ptr<Communicator> last;  // destroyed outside the lock
  const std::lock_guard lock(handles().mutex);
  const auto found = handles().alive.find(handle);
  if (found == handles().alive.end()) return;
  last = std::move(found->second);
  handles().alive.erase(found);
  handles().unused.push_back(handle);
}

std::shared_ptr<Communicator> find_communicator(ncclComm_t handle) {
  const std::lock_guard lock(handles().mutex);
  const auto found = handles().alive.find(handle);
  return found == handles().alive.end() ? nullptr : found->second;
}

std::shared_ptr<Communicator> get_communicator(ncclComm_t handle) {
  require(handle != nullptr, ncclInvalidArgument, "the communicator is NULL");
  std::shared_ptr<Communicator> communicator = find_communicator(handle);
  require(communicator != nullptr, ncclInvalidArgument, "the communicator is none or was destroyed");
  return communicator;
}

std::vector<std::shared_ptr<Communicator>> all_communicators() {
  const std::lock_guard lock(handles().mutex);
  std::vector<std::shared_ptr<Communicator>> all;
  for (const auto& [handle, communicator] : handles().alive) all.push_back(communicator);
  return all;
}

ncclResult_t report(const char* function, const Failure& failure) {
  const std::string line = std::string(function) + ": " + failure.text;
  if (settings().verbose) complain(line);
  {
    const std::lock_guard lock(handles().mutex);
    handles().last_error = line;
  }
  note_group_error(failure.code);
  return failure.code;
}

const char* last_error() {
  // The text stays valid for the calling thread until it asks again.
  thread_local std::string copy;
  const std::lock_guard lock(handles().mutex);
  copy = handles().last_error;
  return copy.c_str();
}

}  // namespace sandbox::nccl

// Entries: creation, end and queries of communicators.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>

#include "sandbox/nccl/api.h"
#include "sandbox/nccl/bootstrap.h"
#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/group.h"
#include "sandbox/nccl/newer.h"
#include "sandbox/nccl/plugin_loader.h"
#include "sandbox/nccl/traffic.h"
#include "sandbox/nccl/version.h"

namespace sandbox::nccl {
namespace {

// A field of the program's configuration, which may be of an older, shorter version.
template <class Field>
Field field(const ncclConfig_t& config, Field ncclConfig_t::*member, Field undefined) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&config);
  const auto* const at = reinterpret_cast<const std::byte*>(&(config.*member));
  return static_cast<size_t>(at - begin) + sizeof(Field) <= config.size ? config.*member : undefined;
}

Configuration read_configuration(const ncclConfig_t* config, const Configuration& defaults) {
  Configuration result = defaults;
  if (config != nullptr) {
    require(config->magic == 0xcafebeef, ncclInvalidArgument,
            "the configuration was not set to NCCL_CONFIG_INITIALIZER");
    const int blocking = field(*config, &ncclConfig_t::blocking, NCCL_CONFIG_UNDEF_INT);
    require(blocking == NCCL_CONFIG_UNDEF_INT || blocking == 0 || blocking == 1, ncclInvalidArgument,
            text("blocking is %d instead of 0 or 1", blocking));
    if (blocking != NCCL_CONFIG_UNDEF_INT) result.blocking = blocking == 1;
    const char* name = field<const char*>(*config, &ncclConfig_t::commName, nullptr);
    if (name != nullptr) result.name = name;
  }
  if (const char* forced = std::getenv("NCCL_COMM_BLOCKING"); forced != nullptr) {
    if (std::strcmp(forced, "0") == 0) result.blocking = false;
    if (std::strcmp(forced, "1") == 0) result.blocking = true;
  }
  return result;
}

ncclResult_t submit_creation(ncclComm_t* handle, std::shared_ptr<Communicator> communicator,
                             std::function<void()> run) {
  if (!communicator->configuration().blocking) communicator->set_state(ncclInProgress);
  *handle = register_communicator(communicator);
  return submit(Job{std::move(communicator), handle, std::move(run)});
}

ncclResult_t create(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
                    const ncclConfig_t* config) {
  require(handle != nullptr, ncclInvalidArgument, "the communicator's address is NULL");
  require(ranks >= 1 && rank >= 0 && rank < ranks, ncclInvalidArgument, text("rank %d of %d", rank, ranks));
  const SegmentAddress address = address_of(id);
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  auto communicator = std::make_shared<Communicator>(device, read_configuration(config, {}));
  Communicator* const raw = communicator.get();  // the job keeps it alive
  return submit_creation(handle, std::move(communicator),
                         [raw, address, ranks, rank] { raw->join(address, ranks, rank); });
}

// A split or shrink of `parent`: `participants` meet, those of one color form the new communicator.
ncclResult_t create_from(const std::shared_ptr<Communicator>& parent, std::vector<int> participants,
                         int color, int key, ncclComm_t* handle, const ncclConfig_t* config) {
  Configuration inherited = parent->configuration();
  inherited.name.clear();
  const uint64_t round = parent->splits++;
  if (color == NCCL_SPLIT_NOCOLOR) {
    *handle = nullptr;
    if (!parent->configuration().blocking) parent->set_state(ncclInProgress);
    Communicator* const raw = parent.get();
    return submit(Job{parent, nullptr, [raw, round, participants = std::move(participants)] {
                        static_cast<void>(meet(*raw, round, participants, NCCL_SPLIT_NOCOLOR, 0));
                      }});
  }
  auto child = std::make_shared<Communicator>(parent->device(), read_configuration(config, inherited));
  Communicator* const raw = child.get();
  return submit_creation(handle, std::move(child),
                         [raw, parent, round, participants = std::move(participants), color, key] {
                           const Place place = meet(*parent, round, participants, color, key);
                           raw->join(place.address, place.ranks, place.rank);
                         });
}

// A rank of the parent: it keeps its number, and the root hands the address on.
ncclResult_t grow(const std::shared_ptr<Communicator>& parent, int ranks, const ncclUniqueId* id,
                  ncclComm_t* handle, const ncclConfig_t* config) {
  Configuration inherited = parent->configuration();
  inherited.name.clear();
  const bool is_root = id != nullptr;
  const SegmentAddress address = is_root ? address_of(*id) : SegmentAddress{};
  require(!is_root || parent->id_is_out.exchange(false), ncclInvalidUsage,
          "the id was used before, or ncclCommGetUniqueId did not make it");
  const uint64_t round = parent->splits++;
  auto grown = std::make_shared<Communicator>(parent->device(), read_configuration(config, inherited));
  Communicator* const raw = grown.get();
  return submit_creation(handle, std::move(grown), [raw, parent, round, is_root, address, ranks] {
    const SegmentAddress met = meet_to_grow(*parent, round, is_root ? &address : nullptr);
    raw->join(met, ranks, parent->rank());
  });
}

std::vector<int> all_ranks(int ranks) {
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Takes the communicator from the program.
void remove(ncclComm_t handle, const std::shared_ptr<Communicator>& communicator, Presence how) {
  communicator->await_graphs();
  if (communicator->joined()) keep_traffic_of(*communicator);
  communicator->leave(how);
  forget_communicator(handle);
}

// A query is answered as soon as the communicator exists; later errors do not hinder it.
std::shared_ptr<Communicator> get_created(ncclComm_t handle) {
  std::shared_ptr<Communicator> communicator = get_communicator(handle);
  require(communicator->joined() && communicator->state() != ncclInProgress, ncclInvalidArgument,
          "the communicator is still in progress");
  return communicator;
}

}  // namespace
}  // namespace sandbox::nccl

using namespace sandbox::nccl;

SANDBOX_NCCL_ENTRY(ncclResult_t, GetUniqueId, (ncclUniqueId * id)) {
  return boundary("ncclGetUniqueId", [&] {
    require(id != nullptr, ncclInvalidArgument, "the id's address is NULL");
    load_plugins_at_start();
    *id = new_unique_id();
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank)) {
  return boundary("ncclCommInitRank", [&] { return create(comm, ranks, id, rank, nullptr); });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommInitRankConfig,
                   (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config)) {
  return boundary("ncclCommInitRankConfig", [&] { return create(comm, ranks, id, rank, config); });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommInitRankScalable,
                   (ncclComm_t * comm, int ranks, int rank, int ids, ncclUniqueId* id,
                    ncclConfig_t* config)) {
  return boundary("ncclCommInitRankScalable", [&] {
    require(id != nullptr && ids >= 1 && ids <= ranks, ncclInvalidArgument,
            text("%d ids for %d ranks", ids, ranks));
    return create(comm, ranks, id[0], rank, config);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommInitAll, (ncclComm_t * comms, int count, const int* devices)) {
  return boundary("ncclCommInitAll", [&] {
    require(comms != nullptr && count >= 1, ncclInvalidArgument, "no communicators to create");
    int available = 0;
    check(cudaGetDeviceCount(&available), "cudaGetDeviceCount");
    std::set<int> used;
    for (int i = 0; i < count; ++i) {
      const int device = devices == nullptr ? i : devices[i];
      require(device >= 0 && device < available, ncclUnhandledCudaError,
              text("there is no device %d", device));
      require(used.insert(device).second, ncclInvalidUsage, text("device %d is listed twice", device));
    }
    ncclUniqueId id;
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) return result;
    // Until 2.23 the real library does this by the public names, which an interposer sees.
    const bool by_public_names = version() < version_code(24);
    if (!by_public_names) {
      group_start();
    } else if (const ncclResult_t started = ncclGroupStart(); started != ncclSuccess) {
      return started;
    }
    try {
      for (int rank = 0; rank < count; ++rank) {
        const DeviceGuard guard(devices == nullptr ? rank : devices[rank]);
        create(&comms[rank], count, id, rank, nullptr);
      }
    } catch (...) {
      group_discard();
      throw;
    }
    return by_public_names ? ncclGroupEnd() : group_end();
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommSplit,
                   (ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* config)) {
  return boundary("ncclCommSplit", [&] {
    const std::shared_ptr<Communicator> parent = get_communicator(comm);
    require(child != nullptr, ncclInvalidArgument, "the new communicator's address is NULL");
    *child = nullptr;
    parent->require_ready();
    require(color >= 0 || color == NCCL_SPLIT_NOCOLOR, ncclInvalidArgument, text("color %d", color));
    return create_from(parent, all_ranks(parent->ranks()), color, key, child, config);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommShrink,
                   (ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* child,
                    ncclConfig_t* config, int flags)) {
  return boundary("ncclCommShrink", [&] {
    const std::shared_ptr<Communicator> parent = get_created(comm);
    require(child != nullptr && excluded != nullptr && excluded_count > 0, ncclInvalidArgument,
            "nothing to exclude");
    *child = nullptr;
    std::vector<int> rest = all_ranks(parent->ranks());
    for (int i = 0; i < excluded_count; ++i) {
      require(excluded[i] >= 0 && excluded[i] < parent->ranks() && excluded[i] != parent->rank(),
              ncclInvalidArgument, text("rank %d cannot be excluded", excluded[i]));
      std::erase(rest, excluded[i]);
    }
    if ((flags & NCCL_SHRINK_ABORT) != 0) {
      parent->abort();
    } else {
      parent->require_ready();
    }
    return create_from(parent, std::move(rest), 0, parent->rank(), child, config);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId* id)) {
  return boundary("ncclCommGetUniqueId", [&] {
    require(id != nullptr, ncclInvalidArgument, "the id's address is NULL");
    const std::shared_ptr<Communicator> parent = get_communicator(comm);
    parent->require_ready();
    require(!parent->id_is_out.exchange(true), ncclInvalidUsage, "an id of the communicator is not used yet");
    *id = new_unique_id();
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommGrow,
                   (ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* grown,
                    ncclConfig_t* config)) {
  return boundary("ncclCommGrow", [&] {
    require(grown != nullptr, ncclInvalidArgument, "the new communicator's address is NULL");
    *grown = nullptr;
    if (comm == nullptr) {
      require(id != nullptr, ncclInvalidArgument, "a rank that joins gave no id");
      return create(grown, ranks, *id, rank, config);
    }
    const std::shared_ptr<Communicator> parent = get_communicator(comm);
    parent->require_ready();
    require(rank == -1, ncclInvalidArgument,
            text("rank %d for a rank of the parent, which keeps its own", rank));
    require(ranks > parent->ranks(), ncclInvalidArgument,
            text("%d ranks are no more than the parent's %d", ranks, parent->ranks()));
    return grow(parent, ranks, id, grown, config);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommFinalize, (ncclComm_t comm)) {
  return boundary("ncclCommFinalize", [&] {
    const std::shared_ptr<Communicator> communicator = get_communicator(comm);
    communicator->require_ready();
    communicator->finalized = true;
    if (!communicator->configuration().blocking) communicator->set_state(ncclInProgress);
    Communicator* const raw = communicator.get();
    return submit(Job{communicator, nullptr, [raw] {
                        raw->drain();
                        raw->await_graphs();
                      }});
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommDestroy, (ncclComm_t comm)) {
  return boundary("ncclCommDestroy", [&] {
    if (comm == nullptr) return;
    const std::shared_ptr<Communicator> communicator = get_communicator(comm);
    communicator->helper.wait();
    communicator->drain();
    remove(comm, communicator, Presence::gone);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommAbort, (ncclComm_t comm)) {
  return boundary("ncclCommAbort", [&] {
    if (comm == nullptr) return;
    const std::shared_ptr<Communicator> communicator = get_communicator(comm);
    communicator->abort();
    remove(comm, communicator, Presence::aborted);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommRevoke, (ncclComm_t comm, int flags)) {
  return boundary("ncclCommRevoke", [&] {
    const std::shared_ptr<Communicator> communicator = get_created(comm);
    require(flags == NCCL_REVOKE_DEFAULT, ncclInvalidArgument, text("revoke flags %d", flags));
    communicator->abort();
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* error)) {
  return boundary("ncclCommGetAsyncError", [&] {
    require(error != nullptr, ncclInvalidArgument, "the result's address is NULL");
    *error = get_communicator(comm)->state();
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommCount, (const ncclComm_t comm, int* count)) {
  return boundary("ncclCommCount", [&] {
    require(count != nullptr, ncclInvalidArgument, "the result's address is NULL");
    *count = get_created(comm)->ranks();
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int* device)) {
  return boundary("ncclCommCuDevice", [&] {
    require(device != nullptr, ncclInvalidArgument, "the result's address is NULL");
    *device = get_created(comm)->device();
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommUserRank, (const ncclComm_t comm, int* rank)) {
  return boundary("ncclCommUserRank", [&] {
    require(rank != nullptr, ncclInvalidArgument, "the result's address is NULL");
    *rank = get_created(comm)->rank();
  });
}

SANDBOX_NCCL_ENTRY(const char*, GetLastError, (ncclComm_t comm)) {
  const std::shared_ptr<Communicator> communicator = find_communicator(comm);
  if (communicator == nullptr) return last_error();
  thread_local std::string copy;
  copy = communicator->last_error();
  return copy.empty() ? last_error() : copy.c_str();
}

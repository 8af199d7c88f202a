// Finds every NCCL in the process among the loaded objects, and which of them a caller is bound to.
//
// dlsym(RTLD_NEXT) finds nothing where Python loads the framework, and with it NCCL, RTLD_LOCAL; and where a
// process has two copies there is no "the" NCCL. So all objects that define pncclAllGather are looked at. No
// lock is held while the loader is called: another thread may be in dlopen, in our own late binding.
#include "plugin/real_nccl.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "plugin/error.h"
#include "plugin/loaded_object.h"
#include "plugin/log.h"
#include "plugin/options.h"

namespace sdp4bit {
namespace {

constexpr const char* kProof = "pncclAllGather";

struct Copies {
  std::mutex mutex;  // guards additions and refusals
  std::array<std::atomic<const RealNccl*>, kMostNcclCopies> list{};
  std::atomic<unsigned> count{0};
  std::array<const void*, 64> refused{};  // identities
  std::size_t refusals = 0;
  std::atomic<unsigned long long> loads_seen{0};

  [[nodiscard]] const RealNccl* find(const void* identity) const {
    for (unsigned i = 0, known = count.load(std::memory_order_acquire); i < known; ++i) {
      const RealNccl* const nccl = list[i].load(std::memory_order_relaxed);
      if (nccl->identity == identity) return nccl;
    }
    return nullptr;
  }
};

/// Nothing runs when it ends: programs call NCCL from their last destructors.
constinit Copies copies_of_process;
static_assert(std::is_trivially_destructible_v<Copies>);

Copies& copies() {
  return copies_of_process;
}

/// Fills the functions from one object alone: a name that a dependency defines is not this copy's.
std::unique_ptr<RealNccl> resolve(const LoadedObject& object) {
  auto real = std::make_unique<RealNccl>();
  std::string missing, absent;
  const auto optional = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(object.defined(name));
    if (!function) absent += std::string(absent.empty() ? "" : ", ") + (name + 1);
    return function != nullptr;
  };
  const auto required = [&](const char* name, auto& function) {
    if (!optional(name, function)) missing += std::string(missing.empty() ? "" : ", ") + name;
  };
  required("pncclReduceScatter", real->reduce_scatter);
  required("pncclAllGather", real->all_gather);
  required("pncclSend", real->send);
  required("pncclRecv", real->recv);
  required("pncclGroupStart", real->group_start);
  required("pncclGroupEnd", real->group_end);
  required("pncclCommInitRank", real->comm_init_rank);
  required("pncclCommInitAll", real->comm_init_all);
  required("pncclCommDestroy", real->comm_destroy);
  required("pncclCommAbort", real->comm_abort);
  required("pncclCommGetAsyncError", real->comm_get_async_error);
  required("pncclCommCount", real->comm_count);
  required("pncclCommUserRank", real->comm_user_rank);
  required("pncclCommCuDevice", real->comm_cu_device);
  required("pncclRedOpCreatePreMulSum", real->red_op_create_pre_mul_sum);
  required("pncclRedOpDestroy", real->red_op_destroy);
  required("pncclGetVersion", real->get_version);
  real->path = object.shown_path();
  real->identity = object.identity();
  real->alone = std::string_view(object.soname()).starts_with("libnccl");
  if (!missing.empty()) {
    throw Error(ncclSystemError, real->path + " defines pncclAllGather but lacks " + missing +
                                     ": it is no NCCL, or older than 2.16");
  }
  constexpr int kNewest = 99999;
  if (real->get_version(&real->version) != ncclSuccess || real->version < kOldestNccl ||
      real->version > kNewest) {
    throw Error(ncclSystemError, real->path + " says that it is NCCL version " +
                                     std::to_string(real->version) +
                                     ", which cannot be or is older than 2.16");
  }
  optional("pncclCommInitRankConfig", real->comm_init_rank_config);
  optional("pncclCommFinalize", real->comm_finalize);
  optional("pncclCommSplit", real->comm_split);
  optional("pncclGroupSimulateEnd", real->group_simulate_end);
  optional("pncclCommInitRankScalable", real->comm_init_rank_scalable);
  optional("pncclCommShrink", real->comm_shrink);
  optional("pncclCommRevoke", real->comm_revoke);
  optional("pncclCommGrow", real->comm_grow);
  (void)config();  // sets the log level
  log_info("NCCL %s is in %s%s%s%s", version_text(real->version).c_str(), real->path.c_str(),
           real->alone ? "" : " (linked statically)", absent.empty() ? "" : "; it does not have ",
           absent.c_str());
  return real;
}

/// Functions found in it stay callable for the life of the process. Says no if it is gone already.
bool pin(const std::string& path, const void* identity) {
  void* const handle =
      ::dlopen(path.empty() ? nullptr : path.c_str(), RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
  if (!handle) return false;
  link_map* map = nullptr;
  const bool same = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_ld == identity;
  ::dlclose(handle);
  return same;
}

/// A library preloaded behind us that also takes NCCL's calls would be bypassed: we call pncclX.
void say_who_is_bypassed() {
  static Once once;
  void* const next = ::dlsym(RTLD_NEXT, "ncclAllGather");
  if (!next) return;
  const auto object = LoadedObject::at(next);
  if (!object || object->defined(kProof) || !once.first()) return;
  log_warn(
      "%s also takes the place of NCCL's functions and is not called, because sdp4bit comes before it and "
      "calls NCCL itself: name it before sdp4bit in LD_PRELOAD, or leave one of them out",
      object->shown_path().c_str());
}

void add(const LoadedObject& object) {
  Copies& all = copies();
  std::unique_ptr<RealNccl> real;
  std::string refusal;
  try {
    real = resolve(object);
  } catch (const Error& error) {
    refusal = error.what();
  }
  const std::lock_guard lock(all.mutex);
  if (all.find(object.identity())) return;  // another thread was first
  const unsigned number = all.count.load(std::memory_order_relaxed);
  if (real && number == kMostNcclCopies) refusal = real->path + " is one copy of NCCL too many";
  if (!refusal.empty()) {
    const auto end = all.refused.begin() + static_cast<std::ptrdiff_t>(all.refusals);
    if (std::find(all.refused.begin(), end, object.identity()) != end) return;
    if (all.refusals < all.refused.size()) all.refused[all.refusals++] = object.identity();
    log_warn("%s; it is passed over", refusal.c_str());
    return;
  }
  real->index = number;
  if (number > 0) {
    const RealNccl& first = *all.list[0].load(std::memory_order_relaxed);
    log_notice(
        "another copy of NCCL: %s in %s%s, besides %s in %s%s; each communicator stays with the one that "
        "made it",
        version_text(real->version).c_str(), real->path.c_str(), real->alone ? "" : " (linked statically)",
        version_text(first.version).c_str(), first.path.c_str(), first.alone ? "" : " (linked statically)");
  }
  nccl_met_alone.store(number == 0 ? real.get() : nullptr, std::memory_order_release);
  all.list[number].store(real.release(), std::memory_order_relaxed);
  all.count.store(number + 1, std::memory_order_release);
}

/// Looks at what was loaded since the last time.
void look_for_copies() {
  Copies& all = copies();
  const unsigned long long loads = loads_so_far();
  if (all.loads_seen.load(std::memory_order_acquire) == loads) return;
  struct Found {
    LoadedObject object;
    std::string path;
  };
  std::vector<Found> found;
  bool no_memory = false;
  for_each_loaded_object([&](const LoadedObject& object) {
    if (!object.defined(kProof)) return;
    try {
      found.push_back({object, object.path()});
    } catch (const std::bad_alloc&) {
      no_memory = true;
    }
  });
  if (no_memory) throw std::bad_alloc();
  for (const Found& each : found) {
    if (!all.find(each.object.identity()) && pin(each.path, each.object.identity())) add(each.object);
  }
  say_who_is_bypassed();
  all.loads_seen.store(loads, std::memory_order_release);
}

const RealNccl& first_of_those_met() {
  const Copies& all = copies();
  if (all.count.load(std::memory_order_acquire) > 0) return *all.list[0].load(std::memory_order_relaxed);
  throw Error(
      ncclSystemError,
      "no loaded object defines pncclAllGather as NCCL does: NCCL is not loaded, or is older than 2.16, "
      "or is linked statically with hidden symbols; sdp4bit cannot work with it, run without it");
}

const RealNccl* copy_that_defines(void* function) {
  const auto object = function ? LoadedObject::at(function) : std::nullopt;
  return object ? copies().find(object->identity()) : nullptr;
}

/// As the loader searches: the global scope, then the caller's own dependencies.
const RealNccl& search_for(const void* caller) {
  look_for_copies();
  if (const RealNccl* const only = only_nccl()) return *only;
  const RealNccl& first = first_of_those_met();
  const auto object = LoadedObject::at(caller);
  if (object) {
    // NCCL calls functions of its own by their public names; those must not go to another copy.
    const RealNccl* const own = copies().find(object->identity());
    if (own && own->alone) return *own;
  }
  if (const RealNccl* const global = copy_that_defines(::dlsym(RTLD_DEFAULT, kProof))) return *global;
  if (object) {
    void* const handle = ::dlopen(*object->path() ? object->path() : nullptr, RTLD_NOLOAD | RTLD_LAZY);
    const RealNccl* const local = handle ? copy_that_defines(::dlsym(handle, kProof)) : nullptr;
    if (handle) ::dlclose(handle);
    if (local) return *local;
  }
  static Once once;
  if (once.first()) {
    log_warn("%s calls NCCL but depends on none of the copies of NCCL that are loaded: it is given %s",
             object ? object->shown_path().c_str() : "generated code", first.path.c_str());
  }
  return first;
}

/// What search_for() said for call sites of this thread. Valid as long as no further copy was met.
struct Site {
  const void* caller = nullptr;
  const RealNccl* nccl = nullptr;
  unsigned copies = 0;
};
constexpr std::size_t kSites = 16;
thread_local std::array<Site, kSites> sites;

}  // namespace

const RealNccl& first_nccl() {
  if (copies().count.load(std::memory_order_acquire) == 0) look_for_copies();
  return first_of_those_met();
}

const RealNccl& nccl_reached_from(const void* caller) {
  Site& site = sites[(reinterpret_cast<std::uintptr_t>(caller) >> 2) % kSites];
  if (site.caller != caller || site.copies != copies().count.load(std::memory_order_acquire)) {
    const RealNccl& nccl = search_for(caller);
    site = {caller, &nccl, copies().count.load(std::memory_order_acquire)};
  }
  return *site.nccl;
}

std::vector<const RealNccl*> loaded_nccls() {
  look_for_copies();
  std::vector<const RealNccl*> all;
  for (unsigned i = 0, count = copies().count.load(std::memory_order_acquire); i < count; ++i) {
    all.push_back(copies().list[i].load(std::memory_order_relaxed));
  }
  return all;
}

std::string version_text(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

}  // namespace sdp4bit

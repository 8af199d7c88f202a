// Rewrites the words through which loaded objects call NCCL (their GOTs).
//
// A library that NCCL itself loads, as a plugin, comes when its callers are bound already. Each call leads
// through a word that the loader filled with the address of NCCL's function; where it still holds that
// address, ours is put in. Pages that the loader has made read-only since (RELRO) are writable for the moment
// of the write. What no word leads to is out of reach: addresses that a program got from dlsym, and NCCL
// linked statically with calls bound at link time.
#include "plugin/late_binding.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/error.h"
#include "plugin/loaded_object.h"
#include "plugin/log.h"
#include "plugin/options.h"
#include "plugin/real_nccl.h"

namespace sdp4bit {
namespace {

constexpr const char* kDefaultNetPlugin = "libnccl-net.so";

/// Set once redirection has begun; from then on new objects are looked at.
std::atomic<bool> taking{false};
std::atomic<unsigned long long> loads_looked_at{0};
/// Makes a page writable, writes and makes it what it was: one thread at a time.
std::mutex page_mutex;

/// One of our entries, and the functions of the same name that calls may be bound to.
struct Entry {
  std::string name;
  std::uintptr_t ours = 0;
  std::vector<std::uintptr_t> theirs;
};

LoadedObject own_object() {
  const auto object = LoadedObject::at(reinterpret_cast<const void*>(&own_object));
  if (!object) throw Error(ncclSystemError, "sdp4bit does not find itself among the loaded objects");
  return *object;
}

/// What we export under NCCL's names. Taking `&ncclAllGather` would give whatever the loader prefers.
std::vector<Entry> entries_of(const LoadedObject& self, const std::vector<const RealNccl*>& copies) {
  std::vector<Entry> entries;
  self.for_each_defined("nccl", [&](const char* name, void* address) {
    entries.push_back({name, reinterpret_cast<std::uintptr_t>(address), {}});
  });
  for (const RealNccl* copy : copies) {
    const auto object = LoadedObject::at(reinterpret_cast<const void*>(copy->all_gather));
    if (!object) continue;
    for (Entry& entry : entries) {
      for (const std::string& name : {entry.name, "p" + entry.name}) {
        if (void* const function = object->defined(name.c_str())) {
          entry.theirs.push_back(reinterpret_cast<std::uintptr_t>(function));
        }
      }
    }
  }
  return entries;
}

/// Access rights of this process's pages, as /proc/self/maps tells them.
class PageRights {
 public:
  static constexpr int kUnknown = -1;

  [[nodiscard]] int of(std::uintptr_t address) {
    if (ranges_.empty()) read();
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                        [](std::uintptr_t at, const Range& range) { return at < range.end; });
    return after != ranges_.end() && after->begin <= address ? after->rights : kUnknown;
  }

 private:
  struct Range {
    std::uintptr_t begin = 0, end = 0;
    int rights = 0;
  };

  void read() {
    const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    std::string text;
    std::array<char, 4096> part;
    for (ssize_t bytes = 0; (bytes = ::read(file, part.data(), part.size())) > 0;) {
      text.append(part.data(), static_cast<std::size_t>(bytes));
    }
    ::close(file);
    for (std::size_t line = 0; line < text.size(); line = text.find('\n', line) + 1) {
      Range range;
      const char* const end = text.data() + text.size();
      auto number = std::from_chars(text.data() + line, end, range.begin, 16);
      number = std::from_chars(number.ptr + 1, end, range.end, 16);
      if (number.ec != std::errc{} || end - number.ptr < 4) break;
      range.rights = (number.ptr[1] == 'r' ? PROT_READ : 0) | (number.ptr[2] == 'w' ? PROT_WRITE : 0) |
                     (number.ptr[3] == 'x' ? PROT_EXEC : 0);
      ranges_.push_back(range);
      if (text.find('\n', line) == std::string::npos) break;
    }
  }

  std::vector<Range> ranges_;
};

/// Other threads read the word while it changes: they get the old address or the new one.
bool write_word(std::uintptr_t* word, std::uintptr_t value, PageRights& pages) {
  const auto address = reinterpret_cast<std::uintptr_t>(word);
  const int rights = pages.of(address);
  if (rights == PageRights::kUnknown) return false;
  const bool writable = (rights & PROT_WRITE) != 0;
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  void* const page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
  if (!writable && ::mprotect(page, page_bytes, rights | PROT_WRITE) != 0) return false;
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  if (!writable) (void)::mprotect(page, page_bytes, rights);
  return true;
}

struct Outcome {
  int redirected = 0;
  int objects = 0;
  int ours_before = 0;
  int refused = 0;  // pages that could not be written
  std::uintptr_t foreign = 0;
  bool no_memory = false;
};

enum class Doing : std::uint8_t { counting, writing };

void redirect_object(const LoadedObject& object, const std::vector<Entry>& entries, Doing doing,
                     Outcome& outcome) {
  const std::lock_guard lock(page_mutex);
  PageRights pages;
  const int before = outcome.redirected;
  object.for_each_reference([&](std::string_view name, std::uintptr_t* word, LoadedObject::Reference kind) {
    if (!name.starts_with("nccl")) return;
    const auto entry = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& candidate) { return candidate.name == name; });
    if (entry == entries.end()) return;
    const std::uintptr_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (value == entry->ours) ++outcome.ours_before;
    if (value == entry->ours || doing == Doing::counting) return;
    const bool is_nccl = std::find(entry->theirs.begin(), entry->theirs.end(), value) != entry->theirs.end();
    const bool not_bound_yet = kind == LoadedObject::Reference::lazy && object.holds(value);
    if (is_nccl || not_bound_yet) {
      ++(write_word(word, entry->ours, pages) ? outcome.redirected : outcome.refused);
    } else if (value != 0 && kind != LoadedObject::Reference::stored) {
      outcome.foreign = value;
    }
  });
  if (outcome.redirected > before) ++outcome.objects;
}

Outcome redirect_all(Doing doing = Doing::writing) {
  const LoadedObject self = own_object();
  const std::vector<const RealNccl*> copies = loaded_nccls();
  const std::vector<Entry> entries = entries_of(self, copies);
  // NCCL's calls of itself stay in NCCL.
  std::vector<const void*> skipped = {self.identity()};
  for (const RealNccl* copy : copies) {
    if (copy->alone) skipped.push_back(copy->identity);
  }
  if (doing == Doing::writing) loads_looked_at.store(loads_so_far(), std::memory_order_release);
  Outcome outcome;
  for_each_loaded_object([&](const LoadedObject& object) {
    if (std::find(skipped.begin(), skipped.end(), object.identity()) != skipped.end()) return;
    try {
      redirect_object(object, entries, doing, outcome);
    } catch (const std::bad_alloc&) {
      outcome.no_memory = true;
    }
  });
  if (outcome.no_memory) throw std::bad_alloc();
  return outcome;
}

void warn_about(const Outcome& outcome) {
  if (outcome.refused > 0) {
    log_warn("%d references to NCCL are in pages that this system does not let change: use LD_PRELOAD",
             outcome.refused);
  }
  static Once once;
  if (outcome.foreign != 0 && once.first()) {
    const auto object = LoadedObject::at(reinterpret_cast<const void*>(outcome.foreign));
    log_warn("some calls of NCCL lead to %s and are left to it",
             object ? object->shown_path().c_str() : "generated code");
  }
}

/// Objects that are loaded from now on find us before an NCCL that is not visible to all.
void become_visible() {
  if (void* const self = ::dlopen(own_object().path(), RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL))
    ::dlclose(self);
}

/// The site's own net plugin, if NCCL would have loaded one by default.
std::string default_net_plugin() {
  void* const handle = ::dlopen(kDefaultNetPlugin, RTLD_LAZY | RTLD_LOCAL);
  if (!handle) return {};
  link_map* map = nullptr;
  std::string path = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : "";
  ::dlclose(handle);
  return path;
}

/// Why being NCCL's net plugin would do harm here; "" if it does not.
std::string harm_as_net_plugin(const RealNccl& nccl) {
  constexpr int kFirstWithList = 22700;
  const bool list = environment_text("NCCL_NET_PLUGIN").find(',') != std::string::npos;
  if (list) return {};
  const std::string displaced = default_net_plugin();
  if (displaced.empty()) return {};
  const std::string keeps = "NCCL_NET_PLUGIN names sdp4bit alone, which keeps NCCL " +
                            version_text(nccl.version) + " from this site's own " + displaced + "; ";
  if (redirect_all(Doing::counting).ours_before > 0) {
    return keeps + "calls are taken all the same, because sdp4bit is preloaded: unset NCCL_NET_PLUGIN";
  }
  return keeps + "no calls are taken: " +
         (nccl.version >= kFirstWithList ? "set NCCL_NET_PLUGIN=sdp4bit," + std::string(kDefaultNetPlugin)
                                         : "unset NCCL_NET_PLUGIN and use LD_PRELOAD, or "
                                           "NCCL_PROFILER_PLUGIN=sdp4bit from NCCL 2.23 on");
}

const char* door_text(Door door) {
  switch (door) {
    case Door::net_plugin:
      return "loaded by NCCL as a net plugin, which it declines to be; ";
    case Door::profiler_plugin:
      return "loaded by NCCL as a profiler plugin, which it declines to be; ";
    case Door::program:
      break;
  }
  return "";
}

}  // namespace

int take_calls(Door door) {
  (void)config();  // sets the log level
  const std::vector<const RealNccl*> copies = loaded_nccls();
  if (copies.empty() && door != Door::program) {
    static Once once;
    if (once.first())
      log_error(
          "no calls are taken: NCCL is linked statically with hidden symbols into the program that uses it; "
          "link it with a shared NCCL, and run it without sdp4bit until then");
    return -1;
  }
  if (door == Door::net_plugin) {
    if (const std::string harm = harm_as_net_plugin(*copies.front()); !harm.empty()) {
      static Once once;
      if (once.first()) log_error("%s", harm.c_str());
      return -1;
    }
  }
  become_visible();
  const Outcome outcome = redirect_all();
  taking.store(true, std::memory_order_release);
  warn_about(outcome);
  static Once once;
  const int here = outcome.redirected + outcome.ours_before;
  if (!once.first()) return here;
  if (here == 0 && !copies.empty()) {
    log_warn(
        "%sno loaded object calls NCCL in a way that can be taken: its addresses come from dlsym, or it is "
        "linked statically; use LD_PRELOAD, or see docs/loading.md",
        door_text(door));
  } else {
    log_notice("%s%d references to NCCL in %d objects lead to sdp4bit now, %d did before", door_text(door),
               outcome.redirected, outcome.objects, outcome.ours_before);
  }
  return here;
}

void take_calls_of_new_objects() {
  if (!taking.load(std::memory_order_acquire)) return;
  if (loads_looked_at.load(std::memory_order_acquire) == loads_so_far()) return;
  const Outcome outcome = redirect_all();
  warn_about(outcome);
  if (outcome.redirected > 0) {
    log_info("%d references to NCCL in %d objects that were loaded later lead to sdp4bit now",
             outcome.redirected, outcome.objects);
  }
}

}  // namespace sdp4bit

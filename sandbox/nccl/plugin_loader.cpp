// The rules and the state of loaded plugins.
#include "sandbox/nccl/plugin_loader.h"

#include <dlfcn.h>
#include <nccl.h>

#include <cstdlib>
#include <mutex>
#include <sstream>

#include "sandbox/nccl/api.h"
#include "sandbox/nccl/extension.h"
#include "sandbox/nccl/failure.h"
#include "sandbox/nccl/settings.h"
#include "sandbox/nccl/version.h"

namespace sandbox::nccl {
namespace {

constexpr int kNamesVerbatimFrom = version_code(21);
constexpr int kListFrom = version_code(27);
constexpr int kNoneFrom = version_code(30);
constexpr int kPerCommunicatorFrom = version_code(22);
constexpr int kClosedWithLastUntil = version_code(26);
constexpr int kProfilerFrom = version_code(23);

// How every version of the net struct begins.
struct NetHead {
  const char* name;
  ncclResult_t (*init)(void (*)(int, unsigned long, const char*, int, const char*, ...));
  ncclResult_t (*devices)(int*);
};
// From version 11 on init takes more; such a plugin is only opened.
constexpr int kNewestCallable = 10;

struct Plugins {
  std::mutex mutex;
  int communicators = 0;
  bool net_done = false;
  bool profiler_done = false;
  std::vector<void*> open;  // declined but kept
  std::string network = "own";
};

Plugins& plugins() {
  static auto* const one = new Plugins;  // communicators may be destroyed after static objects
  return *one;
}

void inform(const std::string& line) {
  if (settings().informs) complain(line);
}

void log_of_plugin(int, unsigned long, const char*, int, const char*, ...) {}

void* open_first(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    const char* const error = dlerror();
    inform("plugin " + name + ": " + (error != nullptr ? error : "not found"));
  }
  return nullptr;
}

struct Symbol {
  std::string name;  // "" where there is none
  void* address = nullptr;
};

Symbol find_symbol(void* handle, PluginKind kind) {
  for (const std::string& name : plugin_symbols(kind, version())) {
    if (void* const address = dlsym(handle, name.c_str())) return {name, address};
  }
  return {};
}

// Whether the plugin is the network now.
bool try_net(void* handle) {
  const auto [name, symbol] = find_symbol(handle, PluginKind::net);
  if (name.empty()) {
    inform("a net plugin without a known symbol is closed");
    dlclose(handle);
    return false;
  }
  plugins().open.push_back(handle);
  const auto* const net = static_cast<const NetHead*>(symbol);
  const int number = std::atoi(name.c_str() + name.rfind('v') + 1);
  int devices = 0;
  if (number > kNewestCallable || net->init(log_of_plugin) != ncclSuccess ||
      net->devices(&devices) != ncclSuccess || devices <= 0) {
    inform(name + ": declined, its state is disabled");
    return false;
  }
  plugins().network = net->name;
  inform("network " + plugins().network + " (" + name + ")");
  return true;
}

void load_net() {
  if (plugins().net_done) return;
  plugins().net_done = true;
  for (const auto& names : plugin_candidates(PluginKind::net, version(), std::getenv("NCCL_NET_PLUGIN"))) {
    void* const handle = open_first(names);
    if (handle != nullptr && try_net(handle)) return;
  }
  inform("network own");
}

void load_profiler() {
  if (plugins().profiler_done) return;
  plugins().profiler_done = true;
  for (const auto& names :
       plugin_candidates(PluginKind::profiler, version(), std::getenv("NCCL_PROFILER_PLUGIN"))) {
    void* const handle = open_first(names);
    if (handle == nullptr) continue;
    if (find_symbol(handle, PluginKind::profiler).name.empty()) {
      inform("a profiler plugin without a known symbol is closed");
      dlclose(handle);
      continue;
    }
    plugins().open.push_back(handle);  // opened and never called: nothing is profiled here
  }
}

std::vector<std::string> split(const std::string& whole) {
  std::vector<std::string> parts;
  std::stringstream stream(whole);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace

std::vector<std::vector<std::string>> plugin_candidates(PluginKind kind, int version, const char* value) {
  const std::string stem = kind == PluginKind::net ? "libnccl-net" : "libnccl-profiler";
  if (kind == PluginKind::profiler && version < kProfilerFrom) return {};
  if (value == nullptr || *value == '\0') return {{stem + ".so"}};
  if (version >= kNoneFrom && std::string(value) == "none") return {};
  const bool list = kind == PluginKind::net && version >= kListFrom;
  std::vector<std::vector<std::string>> candidates;
  for (const std::string& name : list ? split(value) : std::vector<std::string>{value}) {
    std::vector<std::string> tried;
    if (version >= kNamesVerbatimFrom) tried.push_back(name);
    tried.push_back(stem + "-" + name + ".so");
    candidates.push_back(tried);
  }
  return candidates;
}

std::vector<std::string> plugin_symbols(PluginKind kind, int version) {
  struct Range {
    int from, newest, oldest;
  };
  // Releases in between look for what the one before them does.
  constexpr Range kNet[] = {{version_code(30), 12, 6}, {version_code(28), 11, 6}, {version_code(26), 10, 6},
                            {version_code(21), 8, 5},  {version_code(19), 7, 5},  {version_code(0), 6, 4}};
  constexpr Range kProfiler[] = {{version_code(30), 6, 1}, {version_code(28), 5, 1}, {version_code(27), 4, 1},
                                 {version_code(26), 2, 1}, {version_code(23), 1, 1}, {version_code(0), 0, 1}};
  const auto& ranges = kind == PluginKind::net ? kNet : kProfiler;
  const std::string stem = kind == PluginKind::net ? "ncclNetPlugin_v" : "ncclProfiler_v";
  std::vector<std::string> symbols;
  for (const Range& range : ranges) {
    if (version < range.from) continue;
    for (int number = range.newest; number >= range.oldest; --number) {
      symbols.push_back(stem + std::to_string(number));
    }
    break;
  }
  return symbols;
}

void load_plugins_at_start() {
  if (version() >= kPerCommunicatorFrom) return;
  const std::lock_guard lock(plugins().mutex);
  load_net();
}

void load_plugins_for_communicator() {
  load_plugins_at_start();
  const std::lock_guard lock(plugins().mutex);
  ++plugins().communicators;
  if (version() >= kPerCommunicatorFrom) load_net();
  if (version() >= kProfilerFrom) load_profiler();
}

void release_plugins_of_communicator() {
  const std::lock_guard lock(plugins().mutex);
  if (--plugins().communicators > 0) return;
  if (version() < kPerCommunicatorFrom || version() >= kClosedWithLastUntil) return;
  for (void* const handle : plugins().open) dlclose(handle);
  plugins().open.clear();
  plugins().net_done = plugins().profiler_done = false;
  plugins().network = "own";
}

std::string network_in_use() {
  const std::lock_guard lock(plugins().mutex);
  return plugins().network;
}

}  // namespace sandbox::nccl

extern "C" SANDBOX_NCCL_EXPORT const char* sandboxNcclNetwork(void) {
  thread_local std::string copy;
  copy = sandbox::nccl::network_in_use();
  return copy.c_str();
}

// Loads NCCL's plugins as NCCL does: which names are tried, when, which symbols are looked for, when a plugin
// is closed again. The rules differ by version.h's release.
//
// A net plugin that starts and has devices is "the network", by name: the stand-in calls nothing else of it
// and moves its bytes as ever.
#pragma once

#include <string>
#include <vector>

namespace sandbox::nccl {

// At the first unique id and the first communicator: until 2.21 the net plugin is loaded then.
void load_plugins_at_start();
// At the creation of each communicator: the net plugin from 2.22 on, the profiler plugin from 2.23 on.
void load_plugins_for_communicator();
// When a communicator is gone: 2.22 to 2.25 close their plugins with the last one.
void release_plugins_of_communicator();
// The plugin that is the network, or "own".
[[nodiscard]] std::string network_in_use();

// The rules alone.
enum class PluginKind { net, profiler };
// Names for dlopen, best first; `value` is the variable's, null if it is not set. Each inner list is tried
// until one is found; from 2.27 there is one such list for each net plugin.
[[nodiscard]] std::vector<std::vector<std::string>> plugin_candidates(PluginKind kind, int version,
                                                                      const char* value);
// Symbols of a plugin, newest first.
[[nodiscard]] std::vector<std::string> plugin_symbols(PluginKind kind, int version);

}  // namespace sandbox::nccl

// The functions of sdp4bit.h.
#include <sdp4bit/sdp4bit.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "plugin/late_binding.h"
#include "plugin/log.h"
#include "plugin/options.h"
#include "plugin/stats.h"

#define SDP4BIT_EXPORT extern "C" __attribute__((visibility("default")))

using namespace sdp4bit;

namespace {

/// C programs cannot catch: what fails gives an empty text.
template <typename Make>
size_t give_text(char* buffer, size_t capacity, Make make) noexcept {
  try {
    const std::string text = make();
    if (capacity > 0) {
      const size_t length = std::min(text.size(), capacity - 1);
      std::memcpy(buffer, text.data(), length);
      buffer[length] = '\0';
    }
    return text.size();
  } catch (...) {
    if (capacity > 0) buffer[0] = '\0';
    return 0;
  }
}

}  // namespace

SDP4BIT_EXPORT const char* sdp4bitVersion(void) {
  return SDP4BIT_VERSION;
}

SDP4BIT_EXPORT size_t sdp4bitOptionsMarkdown(char* buffer, size_t capacity) {
  return give_text(buffer, capacity, options_markdown);
}

SDP4BIT_EXPORT size_t sdp4bitOptionsInForce(char* buffer, size_t capacity) {
  return give_text(buffer, capacity, [] { return options_in_force(config()); });
}

SDP4BIT_EXPORT size_t sdp4bitStatisticsJson(char* buffer, size_t capacity) {
  return give_text(buffer, capacity, stats_json);
}

SDP4BIT_EXPORT int sdp4bitGetCalls(const char* collective, uint64_t* all, uint64_t* compressed) {
  const std::string name = collective ? collective : "";
  if (name != "reduce_scatter" && name != "all_gather") return -1;
  const CollectiveStats& stats =
      process_stats().of(name == "reduce_scatter" ? Collective::reduce_scatter : Collective::all_gather);
  uint64_t sum = 0;
  for (const auto& calls : stats.calls) sum += calls.load();
  if (all) *all = sum;
  if (compressed) *compressed = stats.calls[static_cast<size_t>(Reason::compressed)].load();
  return 0;
}

SDP4BIT_EXPORT int sdp4bitTakeCalls(const char* door) {
  try {
    const std::string name = door ? door : "";
    return take_calls(name == "net"        ? Door::net_plugin
                      : name == "profiler" ? Door::profiler_plugin
                                           : Door::program);
  } catch (const std::exception& error) {
    log_error("no calls are taken: %s", error.what());
    return -1;
  }
}

// The counters of the preloaded library, as a program reads them.
#pragma once

#include <sdp4bit/sdp4bit.h>

#include <string>

#include "cluster.h"
#include "sandbox/nccl/extension.h"

namespace sdp4bit::test {

inline const sdp4bitFunctions& library() {
  static const sdp4bitFunctions functions = [] {
    sdp4bitFunctions loaded;
    expect(sdp4bitLoad(&loaded) == 1, "the library is preloaded");
    return loaded;
  }();
  return functions;
}

inline sdp4bitStatistics statistics(ncclComm_t comm, const char* collective) {
  sdp4bitStatistics read{};
  read.size = sizeof read;
  expect(library().get_statistics(comm, collective, &read) == 0, "sdp4bitGetStatistics");
  return read;
}

inline std::string why(ncclComm_t comm, const char* collective) {
  std::string text(library().why_native(comm, collective, nullptr, 0), '\0');
  library().why_native(comm, collective, text.data(), text.size() + 1);
  return text;
}

inline void expect_equal(std::uint64_t got, std::uint64_t wanted, const std::string& what) {
  expect(got == wanted, what + ": " + std::to_string(got) + ", not " + std::to_string(wanted));
}

inline sandboxNcclTraffic traffic() {
  sandboxNcclTraffic total{};
  sandboxNcclGetTraffic(&total);
  return total;
}

}  // namespace sdp4bit::test

// Which plugin files and symbols each release of NCCL asks for.
#include "sandbox/nccl/plugin_loader.h"

#include <algorithm>

#include "sandbox/nccl/version.h"
#include "tests/support/catch.h"

using sandbox::nccl::parse_version;
using sandbox::nccl::plugin_candidates;
using sandbox::nccl::plugin_symbols;
using sandbox::nccl::PluginKind;
using sandbox::nccl::version_code;
using Lists = std::vector<std::vector<std::string>>;

TEST_CASE("A release is read whole or not at all") {
  CHECK(parse_version("2.18") == 21800);
  CHECK(parse_version("2.23.4") == 22304);
  for (const char* wrong : {"", "2", "2.", "3.1", "2.18x", "2.18.", "2.18.3.1", "2.5"}) {
    CAPTURE(wrong);
    CHECK(parse_version(wrong) == -1);
  }
}

TEST_CASE("Net plugins are found by the names that the release tries") {
  const auto names = [](int minor, const char* value) {
    return plugin_candidates(PluginKind::net, version_code(minor), value);
  };
  CHECK(names(18, "x") == Lists{{"libnccl-net-x.so"}});
  CHECK(names(21, "x") == Lists{{"x", "libnccl-net-x.so"}});
  CHECK(names(26, "x,y") == Lists{{"x,y", "libnccl-net-x,y.so"}});
  CHECK(names(27, "x,y") == Lists{{"x", "libnccl-net-x.so"}, {"y", "libnccl-net-y.so"}});
  CHECK(names(30, "none") == Lists{});
  CHECK(names(27, "none") == Lists{{"none", "libnccl-net-none.so"}});
  for (const int minor : {18, 23, 27, 30}) CHECK(names(minor, nullptr) == Lists{{"libnccl-net.so"}});
}

TEST_CASE("Profiler plugins exist from 2.23 on and are one") {
  const auto names = [](int minor, const char* value) {
    return plugin_candidates(PluginKind::profiler, version_code(minor), value);
  };
  CHECK(names(22, "x") == Lists{});
  CHECK(names(23, "x") == Lists{{"x", "libnccl-profiler-x.so"}});
  CHECK(names(30, "x,y") == Lists{{"x,y", "libnccl-profiler-x,y.so"}});
}

TEST_CASE("Version 6 of a net plugin is one that every release since 2.18 looks for") {
  for (const int minor : {18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 32}) {
    CAPTURE(minor);
    const std::vector<std::string> symbols = plugin_symbols(PluginKind::net, version_code(minor));
    CHECK(std::count(symbols.begin(), symbols.end(), "ncclNetPlugin_v6") == 1);
    // The newest is asked for first.
    CHECK(symbols.front() == (minor < 19   ? "ncclNetPlugin_v6"
                              : minor < 21 ? "ncclNetPlugin_v7"
                              : minor < 26 ? "ncclNetPlugin_v8"
                              : minor < 28 ? "ncclNetPlugin_v10"
                              : minor < 30 ? "ncclNetPlugin_v11"
                                           : "ncclNetPlugin_v12"));
  }
}

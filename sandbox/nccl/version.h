// Which release of NCCL the stand-in behaves like, where releases differ.
#pragma once

#include <nccl.h>

#include <string>

namespace sandbox::nccl {

// As ncclGetVersion tells it. SANDBOX_NCCL_VERSION=2.18 (or 2.23.4, ...), else that of nccl.h.
[[nodiscard]] int version();

constexpr int version_code(int minor) {
  return 20000 + 100 * minor;
}

// "2.23" or "2.23.4" as a code; -1 for anything else.
[[nodiscard]] int parse_version(const std::string& text);

}  // namespace sandbox::nccl

// Reads SANDBOX_NCCL_VERSION.
#include "sandbox/nccl/version.h"

#include <cstdio>
#include <cstdlib>

#include "sandbox/nccl/failure.h"

namespace sandbox::nccl {
namespace {

constexpr int kOldest = version_code(16), kNewest = version_code(99);

int read() {
  const char* const wanted = std::getenv("SANDBOX_NCCL_VERSION");
  if (wanted == nullptr || *wanted == '\0') return NCCL_VERSION_CODE;
  const int code = parse_version(wanted);
  if (code >= 0) return code;
  complain(std::string("SANDBOX_NCCL_VERSION=") + wanted + " is no release such as 2.18 or 2.23.4; " +
           std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) + " in use");
  return NCCL_VERSION_CODE;
}

}  // namespace

int parse_version(const std::string& text) {
  int minor = 0, patch = 0, length = 0;
  if (std::sscanf(text.c_str(), "2.%2d%n", &minor, &length) != 1) return -1;
  const std::string rest = text.substr(static_cast<size_t>(length));
  int rest_length = 0;
  if (!rest.empty() && (std::sscanf(rest.c_str(), ".%2d%n", &patch, &rest_length) != 1 ||
                        static_cast<size_t>(rest_length) != rest.size())) {
    return -1;
  }
  const int code = version_code(minor) + patch;
  return code >= kOldest && code <= kNewest ? code : -1;
}

int version() {
  static const int once = read();
  return once;
}

}  // namespace sandbox::nccl

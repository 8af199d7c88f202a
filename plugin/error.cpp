// The texts of errors.
#include "plugin/error.h"

#include <cstring>

namespace sdp4bit {
namespace {

std::string place(const char* file, int line) {
  const char* slash = std::strrchr(file, '/');
  return std::string(slash ? slash + 1 : file) + ":" + std::to_string(line);
}

}  // namespace

const char* result_name(ncclResult_t result) noexcept {
  switch (result) {
    case ncclSuccess:
      return "ncclSuccess";
    case ncclUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case ncclSystemError:
      return "ncclSystemError";
    case ncclInternalError:
      return "ncclInternalError";
    case ncclInvalidArgument:
      return "ncclInvalidArgument";
    case ncclInvalidUsage:
      return "ncclInvalidUsage";
    case ncclRemoteError:
      return "ncclRemoteError";
    case ncclInProgress:
      return "ncclInProgress";
    default:
      return "an ncclResult_t that this library does not know";
  }
}

void check(cudaError_t error, const char* file, int line) {
  if (error == cudaSuccess) return;
  throw Error(ncclUnhandledCudaError,
              place(file, line) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")");
}

void check(ncclResult_t result, const char* file, int line) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw Error(result, place(file, line) + ": NCCL returned " + result_name(result));
}

}  // namespace sdp4bit

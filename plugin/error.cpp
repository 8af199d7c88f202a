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

void fail(cudaError_t error, const char* file, int line) {
  const char* const advice =
      error == cudaErrorMemoryAllocation
          ? "free device memory, or set SDP4BIT_WORKSPACE or SDP4BIT_WEIGHT_MEMORY lower"
          : "an earlier kernel or copy of the program may be the cause: CUDA_LAUNCH_BLOCKING=1 finds it";
  throw Error(ncclUnhandledCudaError, std::string("CUDA answered ") + cudaGetErrorName(error) + " (" +
                                          cudaGetErrorString(error) + ") at " + place(file, line) + "; " +
                                          advice);
}

void fail(ncclResult_t result, const char* file, int line) {
  throw Error(result, std::string("NCCL answered ") + result_name(result) + " at " + place(file, line) +
                          "; NCCL_DEBUG=WARN shows its reason");
}

}  // namespace sdp4bit

// What goes wrong inside the library: one exception type, and check() for the results of CUDA and NCCL.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <exception>
#include <string>
#include <utility>

namespace sdp4bit {

/// Carries the result that the intercepted call returns, and one sentence for the log.
class Error : public std::exception {
 public:
  Error(ncclResult_t result, std::string text) : result_(result), text_(std::move(text)) {}
  [[nodiscard]] ncclResult_t result() const noexcept { return result_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  ncclResult_t result_;
  std::string text_;
};

/// What to do where a message did not arrive as it was sent.
inline constexpr const char* kFindWhoDamages =
    "a link, a network card or memory flips bits, or something wrote over memory: find out which, abort the "
    "communicator on all ranks and create it anew";

/// A communicator that does not block answers ncclInProgress: no refusal.
[[nodiscard]] inline bool refused(ncclResult_t result) noexcept {
  return result != ncclSuccess && result != ncclInProgress;
}
[[nodiscard]] const char* result_name(ncclResult_t result) noexcept;

[[noreturn]] void fail(cudaError_t error, const char* file, int line);
[[noreturn]] void fail(ncclResult_t result, const char* file, int line);

/// Throw with place, name and meaning. A communicator that is not blocking answers ncclInProgress: no error.
inline void check(cudaError_t error, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (error != cudaSuccess) [[unlikely]]
    fail(error, file, line);
}
inline void check(ncclResult_t result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (refused(result)) [[unlikely]]
    fail(result, file, line);
}

}  // namespace sdp4bit

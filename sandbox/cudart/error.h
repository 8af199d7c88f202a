// How failures travel inside the runtime stand-in (thrown) and leave it (a result code, remembered per
// thread).
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <new>
#include <utility>

namespace sandbox::cudart {

/// Thrown inside, turned into a result code by entry().
struct Failure {
  cudaError_t code;
};

[[noreturn]] void fail(cudaError_t code);
/// The same after one line on stderr; for failures whose code alone would not tell what is wrong.
[[noreturn]] __attribute__((format(printf, 2, 3))) void fail(cudaError_t code, const char* format, ...);

inline void check(cudaError_t code) {
  if (code != cudaSuccess) fail(code);
}
inline void require(bool condition, cudaError_t code = cudaErrorInvalidValue) {
  if (!condition) fail(code);
}

/// One line "sandbox: ..." in one write to stderr.
__attribute__((format(printf, 1, 2))) void say(const char* format, ...);

/// Makes a failure the thread's last error and returns it.
cudaError_t remember(cudaError_t code);
cudaError_t last_error();
void forget_last_error();

/// Says that `function` is not implemented and returns cudaErrorNotSupported, as an int: refused.cpp must not
/// see CUDA's declarations.
int refuse(const char* function);

/// Every exported function is `return entry([&] { ... });`: nothing is thrown into the program.
template <class Body>
cudaError_t entry(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return cudaSuccess;
  } catch (const Failure& failure) {
    return remember(failure.code);
  } catch (const std::bad_alloc&) {
    return remember(cudaErrorMemoryAllocation);
  } catch (const std::exception& error) {
    say("internal error: %s", error.what());
    return remember(cudaErrorUnknown);
  }
}

}  // namespace sandbox::cudart

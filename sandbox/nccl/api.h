// What every entry point shares: exported names, handles, and the way from exceptions to result codes.
#pragma once

#include <nccl.h>

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "sandbox/nccl/failure.h"

#define SANDBOX_NCCL_EXPORT __attribute__((visibility("default")))

// Defines pncclNAME and, like the real library, ncclNAME as a weak alias of it, so that a program may define
// its own.
#define SANDBOX_NCCL_ENTRY(result, name, ...)                                                               \
  extern "C" SANDBOX_NCCL_EXPORT result pnccl##name __VA_ARGS__;                                            \
  extern "C" SANDBOX_NCCL_EXPORT __attribute__((weak, alias("pnccl" #name))) result nccl##name __VA_ARGS__; \
  result pnccl##name __VA_ARGS__

namespace sandbox::nccl {

class Communicator;

// A handle is registered as long as it is valid; others are refused instead of followed.
[[nodiscard]] ncclComm_t register_communicator(std::shared_ptr<Communicator> communicator);
void forget_communicator(ncclComm_t handle);
[[nodiscard]] std::shared_ptr<Communicator> find_communicator(ncclComm_t handle);  // null where it is none
// Throws where it is none.
[[nodiscard]] std::shared_ptr<Communicator> get_communicator(ncclComm_t handle);
[[nodiscard]] std::vector<std::shared_ptr<Communicator>> all_communicators();

// The last error of this process, for ncclGetLastError, printed with NCCL_DEBUG=WARN. Returns the code;
// inside a group it becomes the group's.
ncclResult_t report(const char* function, const Failure& failure);
[[nodiscard]] const char* last_error();

// Runs an entry's body. It returns nothing or a result code.
template <class Body>
ncclResult_t boundary(const char* function, Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return ncclSuccess;
    } else {
      return body();
    }
  } catch (const Failure& failure) {
    return report(function, failure);
  } catch (const Aborted&) {
    return report(function, Failure{ncclInternalError, "the communicator was aborted"});
  } catch (const std::bad_alloc&) {
    return report(function, Failure{ncclSystemError, "out of memory"});
  } catch (const std::exception& error) {
    return report(function, Failure{ncclSystemError, error.what()});
  } catch (...) {
    return ncclInternalError;
  }
}

}  // namespace sandbox::nccl

// The border to the program: exceptions become results, and what NCCL calls while we call it passes through.
#pragma once

#include <nccl.h>

#include <new>

#include "plugin/error.h"
#include "plugin/log.h"
#include "plugin/route.h"

namespace sdp4bit {

/// True while this thread is inside a call of ours into NCCL: NCCL up to 2.23 calls its own public
/// ncclGroupStart and ncclGroupEnd, which lands in our entries.
inline thread_local bool inside_nccl = false;

class InsideNccl {
 public:
  InsideNccl() : before_(inside_nccl) { inside_nccl = true; }
  ~InsideNccl() { inside_nccl = before_; }
  InsideNccl(const InsideNccl&) = delete;
  InsideNccl& operator=(const InsideNccl&) = delete;

 private:
  bool before_;
};

/// The body of every entry: works with the copy of NCCL that the call is for, never throws, always logs what
/// it turns into a result, with the call's name.
template <typename Body>
ncclResult_t boundary(const Caller& caller, Body&& body, const char* entry = __builtin_FUNCTION()) noexcept {
  try {
    // What NCCL calls while we call it is for the copy at work.
    const WithNccl nccl(inside_nccl ? real_nccl() : nccl_for(caller));
    return body();
  } catch (const Error& error) {
    log_error("%s: %s", entry, error.what());
    return error.result();
  } catch (const std::bad_alloc&) {
    log_error("%s: no host memory left", entry);
    return ncclSystemError;
  } catch (const std::exception& error) {
    log_error("%s: %s", entry, error.what());
    return ncclInternalError;
  } catch (...) {
    log_error("%s: an exception of unknown type", entry);
    return ncclInternalError;
  }
}

}  // namespace sdp4bit

// Which copy of NCCL a call is for: the one that made its communicator, else the one its caller is bound to.
#pragma once

#include <nccl.h>

#include "plugin/real_nccl.h"

namespace sdp4bit {

/// Who called one of our entries, and about which communicator, if about one.
struct Caller {
  const void* address = nullptr;
  ncclComm_t comm = nullptr;
  bool ends_group = false;
};

/// Where an entry's caller goes on. Only right in the entry's own body, not in a lambda.
#define SDP4BIT_CALLER __builtin_return_address(0)

/// Where there may be something to choose. Throws Error where the call would mix two copies.
[[nodiscard]] const RealNccl& choose_nccl(const Caller& caller);
[[nodiscard]] inline const RealNccl& nccl_for(const Caller& caller) {
  const RealNccl* const only = only_nccl();
  return only && (caller.comm || caller.ends_group) ? *only : choose_nccl(caller);
}

}  // namespace sdp4bit

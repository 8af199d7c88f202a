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

/// Throws Error where the call would mix two copies.
[[nodiscard]] const RealNccl& nccl_for(const Caller& caller);

}  // namespace sdp4bit

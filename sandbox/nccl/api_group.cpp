// Entries: groups, user operations, memory, registration, versions and texts.
#include <cstring>

#include "sandbox/cudart/extension.h"
#include "sandbox/nccl/api.h"
#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/group.h"
#include "sandbox/nccl/types.h"
#include "sandbox/nccl/version.h"

using namespace sandbox::nccl;

SANDBOX_NCCL_ENTRY(ncclResult_t, GroupStart, ()) {
  return boundary("ncclGroupStart", [] { group_start(); });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, GroupEnd, ()) {
  return boundary("ncclGroupEnd", [] { return group_end(); });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * info)) {
  return boundary("ncclGroupSimulateEnd", [&] {
    require(info == nullptr ||
                (info->magic == 0x74685283 && info->size >= offsetof(ncclSimInfo_t, estimatedTime)),
            ncclInvalidArgument, "the information was not set to NCCL_SIM_INFO_INITIALIZER");
    group_discard();
    if (info != nullptr && info->size >= sizeof(ncclSimInfo_t))
      info->estimatedTime = 0;  // nothing is known about time here
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, RedOpCreatePreMulSum,
                   (ncclRedOp_t * op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,
                    ncclComm_t comm)) {
  return boundary("ncclRedOpCreatePreMulSum", [&] {
    const std::shared_ptr<Communicator> communicator = get_communicator(comm);
    communicator->require_ready();
    require(op != nullptr && scalar != nullptr, ncclInvalidArgument,
            "the operation's or the scalar's address is NULL");
    require(is_type(type), ncclInvalidArgument, text("type %d", static_cast<int>(type)));
    require(residence == ncclScalarDevice || residence == ncclScalarHostImmediate, ncclInvalidArgument,
            text("scalar residence %d", static_cast<int>(residence)));
    uint64_t bits = 0;
    if (residence == ncclScalarHostImmediate) std::memcpy(&bits, scalar, size_of(type));
    *op = communicator->create_op(type, residence == ncclScalarDevice ? scalar : nullptr, bits);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  return boundary("ncclRedOpDestroy", [&] { get_communicator(comm)->destroy_op(op); });
}

// The real function maps fresh physical memory, which is clear. Programs count on that without knowing:
// nccl-tests warms up, and without its check also measures, with buffers that it never writes.
SANDBOX_NCCL_ENTRY(ncclResult_t, MemAlloc, (void** address, size_t bytes)) {
  return boundary("ncclMemAlloc", [&] {
    require(address != nullptr && bytes > 0, ncclInvalidArgument, "no address to store to, or no bytes");
    check(cudaMalloc(address, bytes), "cudaMalloc");
    std::memset(*address, 0, bytes);
    sandboxMarkWritten(*address, bytes);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, MemFree, (void* address)) {
  return boundary("ncclMemFree", [&] { check(cudaFree(address), "cudaFree"); });
}

// Registration makes nothing faster here; a handle is given so that programs can hand it back.
SANDBOX_NCCL_ENTRY(ncclResult_t, CommRegister,
                   (const ncclComm_t comm, void* buffer, size_t bytes, void** handle)) {
  return boundary("ncclCommRegister", [&] {
    static_cast<void>(get_communicator(comm));
    require(handle != nullptr && buffer != nullptr && bytes > 0, ncclInvalidArgument,
            "no buffer to register");
    *handle = buffer;
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommDeregister, (const ncclComm_t comm, void*)) {
  return boundary("ncclCommDeregister", [&] { static_cast<void>(get_communicator(comm)); });
}

// As the real library where symmetric memory is not available: success and no window.
SANDBOX_NCCL_ENTRY(ncclResult_t, CommWindowRegister,
                   (ncclComm_t comm, void*, size_t, ncclWindow_t* window, int)) {
  return boundary("ncclCommWindowRegister", [&] {
    static_cast<void>(get_communicator(comm));
    require(window != nullptr, ncclInvalidArgument, "the window's address is NULL");
    *window = nullptr;
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t)) {
  return boundary("ncclCommWindowDeregister", [&] { static_cast<void>(get_communicator(comm)); });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, GetVersion, (int* version)) {
  return boundary("ncclGetVersion", [&] {
    require(version != nullptr, ncclInvalidArgument, "the version's address is NULL");
    *version = sandbox::nccl::version();
  });
}

SANDBOX_NCCL_ENTRY(const char*, GetErrorString, (ncclResult_t code)) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

SANDBOX_NCCL_ENTRY(void, ResetDebugInit, ()) {}

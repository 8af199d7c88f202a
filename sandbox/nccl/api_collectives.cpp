// Entries: collectives, sends and receives.
#include <climits>

#include "sandbox/nccl/api.h"
#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/group.h"
#include "sandbox/nccl/types.h"
#include "sandbox/nccl/version.h"

namespace sandbox::nccl {
namespace {

constexpr int kNoRoot = -1;
constexpr int kNoOp = INT_MIN;  // no program can mean it: negative operations are refused

// Checks what NCCL checks and no more: null buffers and wrong sizes are found, or not, when the operation
// runs.
ncclResult_t issue(Function function, const void* send, void* receive, size_t count, ncclDataType_t type,
                   int op, int peer, ncclComm_t comm, cudaStream_t stream) {
  const std::shared_ptr<Communicator> communicator = get_communicator(comm);
  communicator->require_ready();
  const bool names_peer = is_rooted(function) || is_point_to_point(function);
  require(!names_peer || (peer >= 0 && peer < communicator->ranks()), ncclInvalidArgument,
          text("%s: rank %d of %d", name_of(function), peer, communicator->ranks()));
  require(is_type(type), ncclInvalidArgument, text("%s: type %d", name_of(function), static_cast<int>(type)));
  Operation operation;
  operation.signature.function = function;
  operation.signature.type = type;
  operation.signature.peer = names_peer ? peer : kNoRoot;
  operation.signature.count = count;
  operation.send = static_cast<const std::byte*>(send);
  operation.receive = static_cast<std::byte*>(receive);
  operation.stream = stream;
  if (op != kNoOp) communicator->resolve_op(operation, static_cast<ncclRedOp_t>(op), type);
  operation.issue = communicator->next_issue();
  // An empty collective is nothing; an empty message still is a message.
  if (count == 0 && !is_point_to_point(function)) return ncclSuccess;
  return submit(communicator, std::move(operation));
}

// Until 2.23 the real library wraps a message in a group by the public names, which an interposer sees.
ncclResult_t issue_message(Function function, const void* send, void* receive, size_t count,
                           ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  const bool wrapped = version() < version_code(24);
  if (wrapped) {
    if (const ncclResult_t started = ncclGroupStart(); started != ncclSuccess) return started;
  }
  ncclResult_t result = ncclSuccess;
  try {
    result = issue(function, send, receive, count, type, kNoOp, peer, comm, stream);
  } catch (const Failure& failure) {
    if (!wrapped) throw;
    result = report(name_of(function), failure);
  }
  if (!wrapped) return result;
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

}  // namespace
}  // namespace sandbox::nccl

using namespace sandbox::nccl;

SANDBOX_NCCL_ENTRY(ncclResult_t, AllGather,
                   (const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                    cudaStream_t stream)) {
  return boundary("ncclAllGather", [&] {
    return issue(Function::all_gather, send, receive, count, type, kNoOp, kNoRoot, comm, stream);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, ReduceScatter,
                   (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    ncclComm_t comm, cudaStream_t stream)) {
  return boundary("ncclReduceScatter", [&] {
    return issue(Function::reduce_scatter, send, receive, count, type, op, kNoRoot, comm, stream);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, AllReduce,
                   (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    ncclComm_t comm, cudaStream_t stream)) {
  return boundary("ncclAllReduce", [&] {
    return issue(Function::all_reduce, send, receive, count, type, op, kNoRoot, comm, stream);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, Broadcast,
                   (const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                    ncclComm_t comm, cudaStream_t stream)) {
  return boundary("ncclBroadcast", [&] {
    return issue(Function::broadcast, send, receive, count, type, kNoOp, root, comm, stream);
  });
}

// As in the real library through the public name, so that an interposer sees it.
SANDBOX_NCCL_ENTRY(ncclResult_t, Bcast,
                   (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                    cudaStream_t stream)) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

SANDBOX_NCCL_ENTRY(ncclResult_t, Reduce,
                   (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    int root, ncclComm_t comm, cudaStream_t stream)) {
  return boundary("ncclReduce", [&] {
    return issue(Function::reduce, send, receive, count, type, op, root, comm, stream);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, AlltoAll,
                   (const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                    cudaStream_t stream)) {
  return boundary("ncclAlltoAll", [&] {
    return issue(Function::all_to_all, send, receive, count, type, kNoOp, kNoRoot, comm, stream);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, Gather,
                   (const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                    ncclComm_t comm, cudaStream_t stream)) {
  return boundary("ncclGather", [&] {
    return issue(Function::gather, send, receive, count, type, kNoOp, root, comm, stream);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, Scatter,
                   (const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                    ncclComm_t comm, cudaStream_t stream)) {
  return boundary("ncclScatter", [&] {
    return issue(Function::scatter, send, receive, count, type, kNoOp, root, comm, stream);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, Send,
                   (const void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                    cudaStream_t stream)) {
  return boundary("ncclSend", [&] {
    return issue_message(Function::send, buffer, nullptr, count, type, peer, comm, stream);
  });
}

SANDBOX_NCCL_ENTRY(ncclResult_t, Recv,
                   (void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                    cudaStream_t stream)) {
  return boundary("ncclRecv", [&] {
    return issue_message(Function::recv, nullptr, buffer, count, type, peer, comm, stream);
  });
}

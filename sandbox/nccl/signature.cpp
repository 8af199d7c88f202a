// Names of functions and operations, and the text of a signature.
#include "sandbox/nccl/signature.h"

#include <array>

#include "sandbox/nccl/failure.h"
#include "sandbox/nccl/types.h"

namespace sandbox::nccl {
namespace {

constexpr std::array<const char*, 11> kFunctions = {"nothing",       "Send",      "Recv",      "AllGather",
                                                    "ReduceScatter", "AllReduce", "Broadcast", "Reduce",
                                                    "AlltoAll",      "Gather",    "Scatter"};
constexpr std::array<const char*, 6> kOps = {"sum", "prod", "max", "min", "avg", "premulsum"};

}  // namespace

const char* name_of(Function function) {
  return kFunctions.at(static_cast<size_t>(function));
}

bool is_rooted(Function function) {
  return function == Function::broadcast || function == Function::reduce || function == Function::gather ||
         function == Function::scatter;
}

std::string describe(const Signature& signature, bool whole) {
  if (signature.function == Function::none) return "nothing";
  std::string result =
      text("%s(count %llu, %s", name_of(signature.function), static_cast<unsigned long long>(signature.count),
           name_of(static_cast<ncclDataType_t>(signature.type)));
  if (signature.op >= 0) result += std::string(", ") + kOps.at(static_cast<size_t>(signature.op));
  if (is_rooted(signature.function)) result += text(", root %d", signature.peer);
  result += ")";
  if (signature.function == Function::send) result += text(" to rank %d", signature.peer);
  if (signature.function == Function::recv) result += text(" from rank %d", signature.peer);
  if (whole && !is_point_to_point(signature.function)) {
    result += text(" as number %u of %u in its group", signature.group_index + 1, signature.group_size);
    if (signature.captured != 0) result += ", captured";
  }
  return result;
}

}  // namespace sandbox::nccl

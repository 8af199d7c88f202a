// What an operation is, as far as ranks must agree on it, and how it is said to people.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

namespace sandbox::nccl {

enum class Function : int32_t {
  none,
  send,
  recv,
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter
};

inline constexpr int32_t kUserOp = ncclNumOps;  // any operation made by ncclRedOpCreatePreMulSum

struct Signature {
  Function function = Function::none;
  int32_t type = 0;
  int32_t op = -1;    // ncclRedOp_t or kUserOp; -1: the function reduces nothing
  int32_t peer = -1;  // peer of a send or receive, root of a rooted collective
  uint64_t count = 0;
  uint32_t group_size = 1;   // collectives of this communicator in the group
  uint32_t group_index = 0;  // and this one's place among them, in the order of issue
  uint32_t captured = 0;
  uint32_t unused = 0;

  bool operator==(const Signature&) const = default;
};

[[nodiscard]] const char* name_of(Function function);
[[nodiscard]] inline bool is_point_to_point(Function function) {
  return function == Function::send || function == Function::recv;
}
[[nodiscard]] bool is_rooted(Function function);
// "AllGather(count 1000, float)"; with `whole` also what the group and the capture look like.
[[nodiscard]] std::string describe(const Signature& signature, bool whole = false);

}  // namespace sandbox::nccl

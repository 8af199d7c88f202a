// Calls as an argument list, made by each rank as a test says, with the library's votes on.
#pragma once

#include <string>
#include <vector>

#include "../reduce_scatter/gradient_case.h"

namespace sdp4bit::test {

enum class Function { reduce_scatter, all_gather };

struct Made {
  Function function = Function::reduce_scatter;
  std::size_t count = 4096;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
};

inline const Environment kChecked{
    {"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}, {"SDP4BIT_CHECK", "1"}};

/// Buffers for any call of up to `count` elements of 8 bytes.
class Caller {
 public:
  explicit Caller(RankContext& rank, std::size_t count = 4096)
      : rank_(rank),
        large_(Bytes(count * 8 * static_cast<std::size_t>(rank.ranks))),
        small_(Bytes(count * 8)) {}
  [[nodiscard]] ncclResult_t make(const Made& call) const {
    return call.function == Function::reduce_scatter
               ? ncclReduceScatter(large_.data(), small_.data(), call.count, call.type, call.op, rank_.comm,
                                   rank_.stream)
               : ncclAllGather(small_.data(), large_.data(), call.count, call.type, rank_.comm, rank_.stream);
  }
  /// All in one group; what its end says.
  [[nodiscard]] ncclResult_t make_group(const std::vector<Made>& calls) const {
    check(ncclGroupStart());
    for (const Made& call : calls) check(make(call));
    return ncclGroupEnd();
  }
  [[nodiscard]] Bytes output() const { return small_.read(); }

 private:
  RankContext& rank_;
  DeviceBytes large_, small_;
};

inline std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace sdp4bit::test

// How often what should have run: by NCCL, and by the library in its place.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "plan.h"
#include "program.h"
#include "trace.h"

namespace sdp4bit::model {

class ExpectedCalls {
 public:
  explicit ExpectedCalls(const Program& program) : program_(program) {}

  /// On every member of the communicator.
  void expect_native(const Communicator& communicator, const Call& call);
  void expect_compressed(const Communicator& communicator, Function function);
  /// On this rank only. A call of nothing need not run.
  void expect_native_on(int rank, const Call& call);
  /// It may have run or not, as anything.
  void permit_on(int rank, const Call& call);

  /// "" or the first difference.
  [[nodiscard]] std::string compare(const Trace& trace) const;

 private:
  /// Process, function, count and type.
  using Kind = std::tuple<int, Function, std::size_t, ncclDataType_t>;
  struct Expected {
    std::uint64_t calls = 0, permitted = 0;
  };

  [[nodiscard]] Kind kind(int rank, const Call& call) const;
  [[nodiscard]] std::string compare(int process, const ProcessCounts& counts) const;

  const Program& program_;
  std::map<Kind, Expected> native_;
  std::map<std::pair<int, Function>, Expected> compressed_;
};

}  // namespace sdp4bit::model

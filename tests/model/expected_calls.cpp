// Counts by process, and what the sandbox counted; see expected_calls.h.
#include "expected_calls.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace sdp4bit::model {
namespace {

/// As the sandbox writes them. It has no one name for a ring of messages.
constexpr std::pair<const char*, Function> kFunctions[] = {{"ReduceScatter", Function::reduce_scatter},
                                                           {"AllGather", Function::all_gather},
                                                           {"AllReduce", Function::all_reduce},
                                                           {"Broadcast", Function::broadcast}};
constexpr std::pair<const char*, ncclDataType_t> kTypes[] = {
    {"float", ncclFloat32}, {"half", ncclFloat16}, {"bfloat16", ncclBfloat16},
    {"int32", ncclInt32},   {"int8", ncclInt8},    {"double", ncclFloat64}};

template <typename Value, std::size_t Count>
const std::pair<const char*, Value>* find(const std::pair<const char*, Value> (&names)[Count],
                                          const char* name) {
  const auto* const found = std::find_if(
      names, names + Count, [&](const auto& known) { return std::strcmp(known.first, name) == 0; });
  return found == names + Count ? nullptr : found;
}

}  // namespace

ExpectedCalls::Kind ExpectedCalls::kind(int rank, const Call& call) const {
  const int process = program_.process_of(rank);
  if (call.function != Function::all_gather) return {process, call.function, call.count, call.type};
  const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
  return {process, call.function, weight.count, weight.type};
}

void ExpectedCalls::expect_native_on(int rank, const Call& call) {
  const Kind what = kind(rank, call);
  if (std::get<std::size_t>(what) > 0 && call.function != Function::send_recv) ++native_[what].calls;
}

void ExpectedCalls::expect_native(const Communicator& communicator, const Call& call) {
  for (const int member : communicator.members) expect_native_on(member, call);
}

void ExpectedCalls::expect_compressed(const Communicator& communicator, Function function) {
  for (const int member : communicator.members) ++compressed_[{program_.process_of(member), function}].calls;
}

void ExpectedCalls::permit_on(int rank, const Call& call) {
  if (call.function != Function::send_recv) ++native_[kind(rank, call)].permitted;
  if (is_ours(call.function)) ++compressed_[{program_.process_of(rank), call.function}].permitted;
}

std::string ExpectedCalls::compare(const Trace& trace) const {
  for (int process = 0; process < static_cast<int>(program_.processes.size()); ++process) {
    const std::string wrong = compare(process, trace.shared().counts[static_cast<std::size_t>(process)]);
    if (!wrong.empty()) return "process " + std::to_string(process) + " counted " + wrong;
  }
  return {};
}

std::string ExpectedCalls::compare(int process, const ProcessCounts& counts) const {
  std::string wrong;
  const auto look = [&](const std::string& what, std::uint64_t got, const Expected& expected) {
    if (!wrong.empty() || (got >= expected.calls && got <= expected.calls + expected.permitted)) return;
    wrong = std::to_string(got) + " " + what + ", expected " + std::to_string(expected.calls);
  };
  const auto of_library = [&](Function function) {
    const auto found = compressed_.find({process, function});
    return found == compressed_.end() ? Expected{} : found->second;
  };
  look("compressed ReduceScatters", counts.compressed_gradients, of_library(Function::reduce_scatter));
  look("compressed AllGathers", counts.compressed_gathers, of_library(Function::all_gather));

  std::map<Kind, std::uint64_t> got;
  for (std::size_t i = 0; i < std::min(counts.kinds, counts.calls.size()); ++i) {
    char function[32], type[32];
    unsigned long long count = 0;
    if (std::sscanf(counts.calls[i].call, "%31[^(](count %llu, %31[^,)]", function, &count, type) != 3)
      continue;
    const auto* const of_function = find(kFunctions, function);
    const auto* const of_type = find(kTypes, type);
    if (of_function && of_type && count > 0)
      got[{process, of_function->second, count, of_type->second}] += counts.calls[i].calls;
  }
  for (const auto& [what, expected] : native_) {
    if (std::get<int>(what) == process) got.try_emplace(what, 0);
  }
  for (const auto& [what, calls] : got) {
    const auto found = native_.find(what);
    look("native " + std::string(name_of(std::get<Function>(what))) + "s of " +
             std::to_string(std::get<std::size_t>(what)) + " " + name_of(std::get<ncclDataType_t>(what)),
         calls, found == native_.end() ? Expected{} : found->second);
  }
  return wrong;
}

}  // namespace sdp4bit::model

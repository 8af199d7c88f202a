// Runs and judges.
#include "run.h"

#include <algorithm>
#include <cstring>

#include "execute.h"
#include "plan.h"
#include "trace.h"

namespace sdp4bit::model {

namespace {

constexpr double kSeconds = 60;  // a program takes a fraction of one; the machine may be busy

/// Some programs run twice: they must give the same bits, whatever the timing. Not those in which addresses
/// decide which slot a buffer has.
bool repeats(const Program& program) {
  return program.seed % 8 == 0 && std::none_of(program.steps.begin(), program.steps.end(),
                                               [](const Step& step) { return step.action == Action::move; });
}

/// The first output that two runs do not have in common.
std::string compare(const Program& program, const Plan& plan, const Trace& first, const Trace& second) {
  for (const Execution& execution : plan.executions) {
    const Call& call = *execution.call;
    const auto ranks = static_cast<std::size_t>(plan.communicators[execution.communicator].ranks());
    std::size_t bytes = call.count * bytes_of(call.type);
    if (call.function == Function::all_gather) {
      const Weight& weight = program.weights[static_cast<std::size_t>(call.buffer)];
      bytes = weight.count * bytes_of(weight.type) * ranks;
    }
    for (std::size_t place = 0; place < ranks; ++place) {
      const auto output = [&](const Trace& trace) {
        const auto* const record = reinterpret_cast<const Record*>(trace.records() + execution.record[place]);
        return reinterpret_cast<const std::byte*>(record + 1) + record->output_offset;
      };
      if (std::memcmp(output(first), output(second), bytes) == 0) continue;
      return "two runs give rank " + std::to_string(place) + " different bits in step " +
             std::to_string(execution.step);
    }
  }
  return {};
}

}  // namespace

std::string run(const Program& program, Tally& tally) {
  const Plan plan(program);
  Trace trace(plan.trace_bytes);
  std::string failure = execute(program, plan, trace, kSeconds);
  if (failure.empty()) failure = judge(program, plan, trace, tally);
  if (!failure.empty() || !repeats(program)) return failure;
  Trace again(plan.trace_bytes);
  failure = execute(program, plan, again, kSeconds);
  return failure.empty() ? compare(program, plan, trace, again) : failure;
}

}  // namespace sdp4bit::model

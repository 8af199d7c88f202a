// Runs one case: warm-up, timed calls, counted bytes, errors; the result is the same on every rank.
#include "measure.h"

#include <array>
#include <chrono>
#include <cmath>

namespace collectives {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Seconds of `calls` calls, with the time to prepare them left out.
double time_calls(Experiment& experiment, const Session& session, int calls) {
  if (!experiment.changes_between_calls()) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) experiment.call();
    session.synchronize();
    return seconds_since(begin);
  }
  double seconds = 0;
  for (int i = 0; i < calls; ++i) {
    experiment.prepare();
    const auto begin = Clock::now();
    experiment.call();
    session.synchronize();
    seconds += seconds_since(begin);
  }
  return seconds;
}

void add_errors(Experiment& experiment, const Session& session, Measurement& measurement) {
  const Errors errors = experiment.errors();
  std::array sums{errors.squared_error, errors.squared_exact};
  std::array largest{errors.largest};
  session.sum(sums);
  session.maximum(largest);
  measurement.relative_error = sums[1] > 0 ? std::sqrt(sums[0] / sums[1]) : sums[0] > 0 ? INFINITY : 0;
  measurement.maximum_error = largest[0];
  if (errors.digest) measurement.ranks_agree = session.equal_everywhere(*errors.digest);
}

}  // namespace

Measurement measure(const Case& which, const Options& options, const Session& session) {
  const auto experiment = make_experiment(which, session);
  for (int i = 0; i < options.warmup; ++i) {
    experiment->prepare();
    experiment->call();
  }
  session.synchronize();
  session.barrier();

  const auto traffic_before = traffic_so_far();
  std::array sums{time_calls(*experiment, session, options.iterations), 0.0, 0.0};
  if (traffic_before) {
    const auto traffic_after = traffic_so_far();
    sums[1] = static_cast<double>(traffic_after->in_node - traffic_before->in_node);
    sums[2] = static_cast<double>(traffic_after->between_nodes - traffic_before->between_nodes);
  }
  session.sum(sums);
  for (double& sum : sums) sum /= static_cast<double>(session.ranks()) * options.iterations;

  const std::size_t count = experiment->count();
  const auto world = static_cast<std::size_t>(session.ranks());
  Measurement measurement{
      .which = which, .count = count, .bytes = count * which.type.bytes * world, .seconds = sums[0]};
  const double ranks = session.ranks();
  const auto bytes = static_cast<double>(measurement.bytes);
  measurement.algorithm_bandwidth = bytes / sums[0];
  measurement.bus_bandwidth = measurement.algorithm_bandwidth * (ranks - 1) / ranks;
  if (traffic_before) {
    measurement.bytes_in_node = sums[1];
    measurement.bytes_between_nodes = sums[2];
    if (session.nodes() > 1 && measurement.count > 0) {
      measurement.bits_between_nodes =
          8 * sums[2] / static_cast<double>(measurement.count) / (session.nodes() - 1);
    }
  }
  if (options.check) add_errors(*experiment, session, measurement);
  return measurement;
}

}  // namespace collectives

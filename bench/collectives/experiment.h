// One collective with its buffers, its data and its exact result.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "options.h"
#include "session.h"

namespace collectives {

// What distinguishes one line of the table from the next.
struct Case {
  Collective collective;
  ElementType type;
  Reduction reduction;
  std::size_t bytes;  // of the larger buffer
  bool in_place;
  std::uint64_t seed;
};

// One rank's part; sums until the ranks have added theirs.
struct Errors {
  double squared_error = 0;
  double squared_exact = 0;
  double largest = 0;
  std::optional<std::uint64_t> digest;  // of a result that should be the same on every rank
};

class Experiment {
 public:
  virtual ~Experiment() = default;
  // Elements that a rank contributes (all_gather) or receives (reduce_scatter): NCCL's count argument.
  virtual std::size_t count() const = 0;
  // Whether prepare() has something to do before each call; if not, calls are timed back to back.
  virtual bool changes_between_calls() const = 0;
  virtual void prepare() = 0;
  virtual void call() = 0;
  // Compares the result of the latest call, or of one more, with the exact one.
  virtual Errors errors() = 0;
};

std::unique_ptr<Experiment> make_experiment(const Case& which, const Session& session);

}  // namespace collectives

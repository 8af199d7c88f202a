// One collective with its buffers, its data and its exact result.
#include "experiment.h"

#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "workload.h"

namespace collectives {
namespace {

void compare(std::span<const float> result, std::span<const double> exact, Errors& errors) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double error = static_cast<double>(result[i]) - exact[i];
    errors.squared_error += error * error;
    errors.squared_exact += exact[i] * exact[i];
    // Written so that a NaN counts as the largest error there is.
    if (!(std::fabs(error) <= errors.largest)) {
      errors.largest = std::isfinite(error) ? std::fabs(error) : std::numeric_limits<double>::infinity();
    }
  }
}

std::uint64_t digest(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}

// The reduction to ask for; a PreMulSum by 1/ranks is made for the communicator and lives as long as this.
class Operation {
 public:
  Operation(Reduction reduction, const ElementType& type, const Session& session)
      : communicator_(session.communicator()) {
    if (reduction == Reduction::kSum) return;
    factor_ = 1.0f / static_cast<float>(session.ranks());
    operation_ = ncclAvg;
    if (reduction == Reduction::kPreMulSum) {
      std::byte scalar[4];
      float rounded = static_cast<float>(factor_);
      round_to(type, {&rounded, 1}, scalar);
      factor_ = static_cast<double>(rounded);
      check(ncclRedOpCreatePreMulSum(&operation_, scalar, type.nccl_type, ncclScalarHostImmediate,
                                     communicator_));
      made_ = true;
    } else {
      factor_ = 1.0 / session.ranks();
    }
  }
  ~Operation() {
    if (made_) (void)ncclRedOpDestroy(operation_, communicator_);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  ncclRedOp_t get() const { return operation_; }
  double factor() const { return factor_; }

 private:
  ncclComm_t communicator_;
  ncclRedOp_t operation_ = ncclSum;
  double factor_ = 1;
  bool made_ = false;
};

// Gradients: the same input at every call.
class ReduceScatterExperiment final : public Experiment {
 public:
  ReduceScatterExperiment(const Case& which, const Session& session)
      : case_(which),
        session_(session),
        count_(which.bytes / which.type.bytes / static_cast<std::size_t>(session.ranks())),
        shard_bytes_(count_ * which.type.bytes),
        input_(shard_bytes_ * static_cast<std::size_t>(session.ranks())),
        output_(which.in_place ? 0 : shard_bytes_),
        operation_(which.reduction, which.type, session) {
    fill_input();
  }

  std::size_t count() const override { return count_; }
  bool changes_between_calls() const override { return false; }
  void prepare() override {}

  void call() override {
    check(ncclReduceScatter(input_.data(), result(), count_, case_.type.nccl_type, operation_.get(),
                            session_.communicator(), session_.stream()));
  }

  Errors errors() override {
    if (case_.in_place) {  // earlier calls have written into the input
      fill_input();
      call();
    }
    std::vector<std::byte> packed(shard_bytes_);
    session_.download(packed, result());
    std::vector<float> values(count_);
    widen(case_.type, packed, values);

    std::vector<double> exact(count_);
    std::vector<float> part(count_);
    const std::size_t first = static_cast<std::size_t>(session_.rank()) * count_;
    for (int rank = 0; rank < session_.ranks(); ++rank) {
      fill_gradient(case_.seed, rank, first, part);
      round_to(case_.type, part, packed);
      for (std::size_t i = 0; i < count_; ++i) exact[i] += static_cast<double>(part[i]) * operation_.factor();
    }
    Errors errors;
    compare(values, exact, errors);
    return errors;
  }

 private:
  std::byte* result() const {
    return case_.in_place ? input_.data() + static_cast<std::size_t>(session_.rank()) * shard_bytes_
                          : output_.data();
  }

  void fill_input() {
    std::vector<float> values(count_ * static_cast<std::size_t>(session_.ranks()));
    std::vector<std::byte> packed(input_.size());
    fill_gradient(case_.seed, session_.rank(), 0, values);
    round_to(case_.type, values, packed);
    session_.upload(input_.data(), packed);
  }

  Case case_;
  const Session& session_;
  std::size_t count_, shard_bytes_;
  DeviceBuffer input_, output_;
  Operation operation_;
};

// Weights in buffers that stay: before each call every rank moves its own shard one step on, as an optimizer
// does.
class AllGatherExperiment final : public Experiment {
 public:
  AllGatherExperiment(const Case& which, const Session& session)
      : case_(which),
        session_(session),
        count_(which.bytes / which.type.bytes / static_cast<std::size_t>(session.ranks())),
        shard_bytes_(count_ * which.type.bytes),
        own_(which.in_place ? 0 : shard_bytes_),
        gathered_(shard_bytes_ * static_cast<std::size_t>(session.ranks())),
        masters_(static_cast<std::size_t>(session.ranks()), Master{std::vector<float>(count_)}) {
    for (int rank = 0; rank < session.ranks(); ++rank) fill_weights(case_.seed, rank, master(rank).weights);
  }

  std::size_t count() const override { return count_; }
  bool changes_between_calls() const override { return true; }

  void prepare() override {
    ++step_;
    std::vector<std::byte> packed(shard_bytes_);
    std::vector<float> weights = weights_now(session_.rank());
    round_to(case_.type, weights, packed);
    session_.upload(own_shard(), packed);
  }

  void call() override {
    check(ncclAllGather(own_shard(), gathered_.data(), count_, case_.type.nccl_type, session_.communicator(),
                        session_.stream()));
  }

  Errors errors() override {
    std::vector<std::byte> packed(gathered_.size()), scratch(shard_bytes_);
    session_.download(packed, gathered_.data());
    Errors errors;
    errors.digest = digest(packed);
    std::vector<float> values(count_);
    for (int rank = 0; rank < session_.ranks(); ++rank) {
      widen(case_.type,
            std::span(packed).subspan(static_cast<std::size_t>(rank) * shard_bytes_, shard_bytes_), values);
      std::vector<float> weights = weights_now(rank);
      round_to(case_.type, weights, scratch);
      compare(values, std::vector<double>(weights.begin(), weights.end()), errors);
    }
    return errors;
  }

 private:
  // The weights of one rank in full precision, brought up to date when they are asked for.
  struct Master {
    std::vector<float> weights;
    std::uint64_t step = 0;
  };

  Master& master(int rank) { return masters_[static_cast<std::size_t>(rank)]; }

  const std::vector<float>& weights_now(int rank) {
    Master& owner = master(rank);
    while (owner.step < step_) advance_weights(case_.seed, rank, ++owner.step, owner.weights);
    return owner.weights;
  }

  std::byte* own_shard() const {
    return case_.in_place ? gathered_.data() + static_cast<std::size_t>(session_.rank()) * shard_bytes_
                          : own_.data();
  }

  Case case_;
  const Session& session_;
  std::size_t count_, shard_bytes_;
  DeviceBuffer own_, gathered_;
  std::vector<Master> masters_;
  std::uint64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Experiment> make_experiment(const Case& which, const Session& session) {
  if (which.collective == Collective::kReduceScatter) {
    return std::make_unique<ReduceScatterExperiment>(which, session);
  }
  return std::make_unique<AllGatherExperiment>(which, session);
}

}  // namespace collectives

// Looks at gradients, and what follows from them; see gradient_health.h.
#include "plugin/gradient_health.h"

#include <algorithm>

#include "plugin/bounded_wait.h"
#include "plugin/comm_state.h"
#include "plugin/first_number.h"
#include "plugin/log.h"
#include "plugin/real_nccl.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kHistograms = GradientHealth::kMostClasses * sizeof(ScaleHistogram);
constexpr std::size_t kChecksumOffset = sizeof(HealthRecord) + 8;

/// As it travels: with checksums the record is followed by 8 bytes of zeros and its own.
std::size_t record_bytes() {
  return config().checksum ? 2 * sizeof(HealthRecord) : sizeof(HealthRecord);
}

void warn(const HealthWords& words, std::size_t count, std::uint32_t ranks) {
  static Once once;
  if (!once.first()) return;
  log_warn(
      "ReduceScatter of %zu elements: gradients of %u of %u ranks look like garbage (rank %u: %u of %u "
      "groups are not finite, and the largest is 2^%u times the usual one). A framework that pads gradients "
      "with memory it never wrote does this, as DeepSpeed's ZeRO-3; it ruins the gradients next to it. "
      "SDP4BIT_FRAMEWORK=deepspeed or SDP4BIT_COLLECTIVES=all_gather leaves gradients to NCCL",
      count, words.unhealthy_ranks, ranks, words.first_rank, words.first.not_finite, words.first.groups,
      words.first.largest - words.first.median);
}

}  // namespace

/// The exchange of records, for the classes that were looked at.
class GradientHealth::Records final : public SingleCall {
 public:
  explicit Records(GradientHealth& health) : health_(health) {}

  void begin(CommState& comm, cudaStream_t stream) {
    comm_ = &comm;
    stream_ = stream;
    places_.clear();
  }
  void add(std::size_t place) { places_.push_back(place); }

  CommState& comm() override { return *comm_; }
  cudaStream_t stream() const override { return stream_; }
  std::size_t chunk_count() const override { return 1; }
  std::size_t chunk_bytes(std::size_t) const override { return 0; }
  int step_count() const override { return 2; }
  const char* phase(int step) const override { return step == 0 ? "health: write" : "health: publish"; }

  void launch_step(const Step& step) override {
    for (const std::size_t place : places_) {
      if (step.step == 0) {
        check(write_health(health_.histogram(place),
                           reinterpret_cast<HealthRecord*>(health_.own_record(place)), step.stream));
        comm_->checksums.seal(checksummed(health_.own_record(place), 1), step.stream);
      } else {
        const std::uint64_t number = health_.classes_[place].records;
        comm_->checksums.verify(*comm_,
                                {.exchange = Exchange::gradient_health,
                                 .parts = checksummed(health_.all_records(place), health_.ranks_),
                                 .headers_per_part = 0},
                                {.use = comm_->checksums.next_use(), .number = number - 1}, step.stream);
        check(publish_health({.records = health_.all_records(place),
                              .stride = record_bytes(),
                              .ranks = health_.ranks_,
                              .number = number,
                              .words = health_.words(place)},
                             step.stream));
      }
    }
  }
  void exchange_step(const Step& step) override {
    if (step.step != 0) return;
    for (const std::size_t place : places_) {
      check(real_nccl().all_gather(health_.own_record(place), health_.all_records(place), record_bytes(),
                                   ncclUint8, comm_->handle, step.stream));
    }
  }

 private:
  static ChecksummedParts checksummed(std::byte* records, std::uint32_t count) {
    ChecksummedParts parts = checksummed_messages(records, record_bytes(), record_bytes(), count);
    parts.checksum_offset = kChecksumOffset;
    return parts;
  }

  GradientHealth& health_;
  CommState* comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<std::size_t> places_;
};

GradientHealth::GradientHealth() : call_(std::make_unique<Records>(*this)) {
  classes_.reserve(kMostClasses);
}
GradientHealth::~GradientHealth() = default;

bool GradientHealth::allocate(std::uint32_t ranks) {
  ranks_ = ranks;
  device_ = DeviceBuffer::try_allocate(kHistograms + kMostClasses * record_bytes() * (1 + ranks));
  words_ = PinnedBuffer::try_allocate(kMostClasses * sizeof(HealthWords));
  if (!device_ || !words_) {
    release();
    return false;
  }
  std::fill_n(words(0), kMostClasses, HealthWords{});
  return true;
}

void GradientHealth::release() {
  device_.reset();
  words_.reset();
}

ScaleHistogram* GradientHealth::histogram(std::size_t place) const {
  return device_.as<ScaleHistogram>() + place;
}
std::byte* GradientHealth::own_record(std::size_t place) const {
  return device_.data() + kHistograms + place * record_bytes();
}
std::byte* GradientHealth::all_records(std::size_t place) const {
  return device_.data() + kHistograms + (kMostClasses + place * ranks_) * record_bytes();
}

GradientHealth::Class* GradientHealth::find(std::size_t count, ncclDataType_t type) {
  const auto is_it = [&](const Class& one) { return one.count == count && one.type == type; };
  if (last_ < classes_.size() && is_it(classes_[last_])) return &classes_[last_];
  const auto found = std::find_if(classes_.begin(), classes_.end(), is_it);
  last_ = static_cast<std::size_t>(found - classes_.begin());
  return found == classes_.end() ? nullptr : &*found;
}

bool GradientHealth::is_native(CommState& comm, std::size_t count, ncclDataType_t type, std::uint64_t epoch) {
  Class* const one = find(count, type);
  if (!one) return false;
  if (one->epoch == epoch) return one->native;
  one->epoch = epoch;
  if (one->record_epoch != 0 && one->schedule.reads(one->calls)) {
    const HealthWords& said = *words(place(*one));
    wait_bounded(
        comm, [&] { return __atomic_load_n(&said.number, __ATOMIC_ACQUIRE) == one->records; },
        "what an earlier ReduceScatter's gradients looked like");
    comm.check_usable();  // words of records that did not arrive whole: this rank would decide alone
    one->record_epoch = 0;
    if (said.unhealthy_ranks != 0) warn(said, count, ranks_);
    if (one->schedule.hear(one->calls, said.unhealthy_ranks != 0)) {
      log_info(
          "ReduceScatter of %zu elements: three looks in a row found garbage; it stays with NCCL for now",
          count);
    }
  }
  return one->native = one->schedule.paused(one->calls);
}

ScaleHistogram* GradientHealth::number_call(std::size_t count, ncclDataType_t type, std::uint64_t epoch) {
  Class* one = find(count, type);
  if (!one) {
    if (classes_.size() == kMostClasses) return nullptr;
    one = &classes_.emplace_back(Class{.count = count,
                                       .type = type,
                                       .schedule = HealthSchedule(first_number()),
                                       .calls = first_number(),
                                       .epoch = epoch,
                                       .records = first_number()});
  }
  const std::uint64_t call = one->calls++;
  if (one->native || !one->schedule.looks(call)) return nullptr;
  one->look_epoch = epoch;
  return histogram(place(*one));
}

PhasedCall* GradientHealth::start_records(CommState& comm, cudaStream_t stream, std::uint64_t epoch) {
  PhasedCall* started = nullptr;  // what was started for an earlier call of the group stays as it is
  for (Class& one : classes_) {
    if (one.look_epoch == 0 || one.look_epoch == epoch) continue;
    if (!started) call_->begin(comm, stream);
    started = call_.get();
    one.look_epoch = 0;
    one.record_epoch = epoch;
    ++one.records;
    call_->add(place(one));
  }
  return started;
}

}  // namespace sdp4bit

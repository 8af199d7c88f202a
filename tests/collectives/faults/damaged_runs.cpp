// The training, the damage and the judgement of its outputs; see damaged_runs.h.
#include "damaged_runs.h"

#include <sandbox/nccl/extension.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <utility>

#include "kernels/reference_codec.h"
#include "kernels/wire_format.h"
#include "plugin/handshake.h"

namespace sdp4bit::test {
namespace {

// No two parts of the program are of one size, so that a transfer's size tells what it is.
constexpr std::size_t kGradients = 1100, kWeights = 1600;
constexpr std::size_t kHello = 16;
constexpr int kFirstReplay = 6;  // gradients are compressed by then

// Nearest rounding: the noise of stochastic codecs differs from communicator to communicator.
const Environment kCommon{{"SDP4BIT_COMMS", "name:work"},     {"SDP4BIT_MIN_BYTES", "0"},
                          {"SDP4BIT_CODEC_INTER", "int4-rn"}, {"SDP4BIT_CODEC_INTRA", "int8-rn"},
                          {"SDP4BIT_CODEC_WEIGHT", "int4"},   {"SDP4BIT_WEIGHT_GROUP", "64"}};

enum class Target { handshake, record, message, gathered, hello };

/// One rank's part of the training, on one communicator.
class Training {
 public:
  Training(const DamagedRuns& runs, const RankContext& rank, ncclComm_t comm)
      : runs_(runs),
        rank_(rank),
        comm_(comm),
        ranks_(static_cast<std::size_t>(rank.ranks)),
        gradients_(kGradients * 4 * ranks_),
        sum_(kGradients * 4),
        shard_(kWeights * 2),
        weights_(Bytes(kWeights * 2 * ranks_, std::byte{0})) {}
  ~Training() { drop_graph(); }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void prepare(int step) {
    Bytes gradients(kGradients * 4 * ranks_), weights(kWeights * 2);
    const auto me = static_cast<unsigned>(rank_.rank);
    std::mt19937 random(me * 1000 + static_cast<unsigned>(step));
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < kGradients * ranks_; ++i)
      reference::store_element(ElementType::float32, gradients.data(), i, normal(random));
    // Weights move little by little, and are others altogether from the last third on.
    const bool replaced = step >= runs_.steps * 2 / 3;
    std::mt19937 base(me + (replaced ? 77 : 7)), move(me + 99);
    for (std::size_t i = 0; i < kWeights; ++i) {
      const float weight = normal(base), speed = normal(move);
      reference::store_element(ElementType::bfloat16, weights.data(), i,
                               weight + 0.01f * speed * static_cast<float>(step));
    }
    gradients_.write(gradients);
    (runs_.out_of_place ? shard_ : weights_)
        .write(weights, runs_.out_of_place ? 0 : static_cast<std::size_t>(rank_.rank) * kWeights * 2);
  }

  ncclResult_t run(int step) {
    ncclResult_t result = ncclSuccess;
    if (runs_.grouped) (void)ncclGroupStart();
    for (int call = 0; call < runs_.reduces_of_step && result == ncclSuccess; ++call) result = reduce();
    if (result == ncclSuccess) result = gather();
    if (runs_.grouped) result = std::max(result, ncclGroupEnd());
    if (result != ncclSuccess || !runs_.replays || step < kFirstReplay) return result;
    return replay();
  }

  /// NCCL's abort waits for the graphs that hold its communicator.
  void drop_graph() {
    if (graph_) (void)cudaGraphExecDestroy(std::exchange(graph_, nullptr));
  }

  [[nodiscard]] Bytes output() const {
    Bytes all = sum_.read();
    const Bytes weights = weights_.read();
    all.insert(all.end(), weights.begin(), weights.end());
    return all;
  }

 private:
  ncclResult_t reduce() const {
    return ncclReduceScatter(gradients_.data(), sum_.data(), kGradients, ncclFloat32, ncclAvg, comm_,
                             rank_.stream);
  }
  ncclResult_t gather() const {
    const auto* const own = weights_.data() + static_cast<std::size_t>(rank_.rank) * kWeights * 2;
    return ncclAllGather(runs_.out_of_place ? shard_.data() : own, weights_.data(), kWeights, ncclBfloat16,
                         comm_, rank_.stream);
  }
  ncclResult_t replay() {
    if (!graph_) {
      cudaGraph_t graph = nullptr;
      check(cudaStreamBeginCapture(rank_.stream, cudaStreamCaptureModeThreadLocal));
      const ncclResult_t result = reduce();
      check(cudaStreamEndCapture(rank_.stream, &graph));
      if (result != ncclSuccess) return result;
      check(cudaGraphInstantiate(&graph_, graph, 0));
      check(cudaGraphDestroy(graph));
    }
    for (int i = 0; i < 2; ++i) check(cudaGraphLaunch(graph_, rank_.stream));
    return ncclSuccess;
  }

  const DamagedRuns& runs_;
  const RankContext& rank_;
  ncclComm_t comm_;
  std::size_t ranks_;
  DeviceBytes gradients_, sum_, shard_, weights_;
  cudaGraphExec_t graph_ = nullptr;
};

enum class Likeness { equal, some_nan, other };

Likeness compare(const Bytes& got, const Bytes& expected) {
  Likeness likeness = Likeness::equal;
  const auto look = [&](ElementType type, std::size_t begin, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const float is = reference::load_element(type, got.data() + begin, i);
      const float should = reference::load_element(type, expected.data() + begin, i);
      if (is == should) continue;
      likeness = std::max(likeness, std::isnan(is) ? Likeness::some_nan : Likeness::other);
    }
  };
  look(ElementType::float32, 0, kGradients);
  look(ElementType::bfloat16, kGradients * 4, (got.size() - kGradients * 4) / 2);
  return likeness;
}

/// Ends what waits for a rank that has failed, as the watchdogs of frameworks do: the rank that has an error
/// says so, and a thread of every rank aborts its communicator.
class Abortion {
 public:
  explicit Abortion(std::atomic<unsigned>& failed_run) : failed_run_(failed_run) {}
  ~Abortion() {
    ends_.store(true);
    thread_.join();
  }
  Abortion(const Abortion&) = delete;
  Abortion& operator=(const Abortion&) = delete;

  /// Runs are numbered from 1.
  void begin(unsigned run, ncclComm_t comm) {
    const std::lock_guard lock(mutex_);
    run_ = run;
    comm_ = comm;
  }
  void say_failed() { failed_run_.store(run_); }
  /// Once for each run, by whoever comes first; the other one waits for its end.
  void abort() { abort(run_.load()); }
  [[nodiscard]] bool aborted() {
    const std::lock_guard lock(mutex_);
    return comm_ == nullptr;
  }

 private:
  void abort(unsigned run) {
    const std::lock_guard under_way(aborting_);
    if (const ncclComm_t comm = take(run)) (void)ncclCommAbort(comm);
  }
  /// The next run's communicator has done nothing.
  [[nodiscard]] ncclComm_t take(unsigned run) {
    const std::lock_guard lock(mutex_);
    return run == run_.load() ? std::exchange(comm_, nullptr) : nullptr;
  }
  void watch() {
    while (!ends_.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (const unsigned failed = failed_run_.load(); failed != 0) abort(failed);
    }
  }

  std::atomic<unsigned>& failed_run_;  // of all ranks
  std::atomic<unsigned> run_{0};
  std::atomic<bool> ends_{false};
  std::mutex aborting_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
  std::thread thread_{[this] { watch(); }};
};

/// What ranks tell each other beside the training, by NCCL's own calls on their first communicator.
class Aside {
 public:
  explicit Aside(const RankContext& rank) : rank_(rank), word_(sizeof(std::int32_t)) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~Aside() { (void)cudaStreamDestroy(stream_); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  [[nodiscard]] int maximum(int value) {
    Bytes bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    word_.write(bytes);
    check(ncclAllReduce(word_.data(), word_.data(), 1, ncclInt32, ncclMax, rank_.comm, stream_));
    check(cudaStreamSynchronize(stream_));
    std::memcpy(&value, word_.read().data(), sizeof value);
    return value;
  }
  [[nodiscard]] ncclComm_t new_communicator() {
    ncclUniqueId id{};
    if (rank_.rank == 0) check(ncclGetUniqueId(&id));
    Bytes bytes(sizeof id);
    std::memcpy(bytes.data(), &id, sizeof id);
    const DeviceBytes shared(bytes);
    check(ncclBroadcast(shared.data(), shared.data(), sizeof id, ncclUint8, 0, rank_.comm, stream_));
    check(cudaStreamSynchronize(stream_));
    std::memcpy(&id, shared.read().data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "work";
    ncclComm_t comm = nullptr;
    check(ncclCommInitRankConfig(&comm, rank_.ranks, id, rank_.rank, &config));
    return comm;
  }

 private:
  const RankContext& rank_;
  DeviceBytes word_;
  cudaStream_t stream_ = nullptr;
};

Target target_of(const sandboxNcclTransfer& transfer) {
  if (transfer.bytes == sizeof(HandshakeRecord)) return Target::handshake;
  if (transfer.bytes == kWeights * 2 && transfer.is_collective != 0) return Target::gathered;
  if (transfer.bytes == kHello && transfer.is_collective == 0) return Target::hello;
  return transfer.is_collective != 0 && transfer.bytes <= sizeof(MessageHeader) ? Target::record
                                                                                : Target::message;
}

/// A transfer to this rank: the how-many-th from its sender.
struct Choice {
  sandboxNcclTransfer transfer{};
  std::uint64_t number = 0;
};

/// Which of one sender's transfers set entries of a ledger. Descriptions of calls (SDP4BIT_CHECK=1) are as
/// large as records; a record follows what was gathered natively, and the first description comes before any.
class Records {
 public:
  explicit Records(bool with_descriptions) : with_descriptions_(with_descriptions) {}

  void see(Target target) {
    if (target == Target::gathered) awaited_ = described_ || !with_descriptions_;
    if (target != Target::record) return;
    const bool is_record = awaited_ || !with_descriptions_;
    count_ += is_record;
    described_ = described_ || !is_record;
    awaited_ = false;
  }
  /// Native gathers that were recorded before anybody had a ledger set none.
  [[nodiscard]] bool set_entries() const { return count_ >= 4; }

 private:
  bool with_descriptions_;
  bool described_ = false;  // a description came
  bool awaited_ = false;    // a record comes next
  unsigned count_ = 0;
};

/// Those that may be chosen: what NCCL moves for calls that are its own is its business, unless a ledger
/// entry of this rank is made of it.
std::vector<Choice> choices(const DamagedRuns& runs, int rank) {
  std::vector<sandboxNcclTransfer> noted(sandboxNcclGetTransfers(nullptr, 0));
  (void)sandboxNcclGetTransfers(noted.data(), noted.size());
  const auto place_in_node = [&](int of) {
    return std::count(runs.node_of.begin(), runs.node_of.begin() + of,
                      runs.node_of.at(static_cast<std::size_t>(of)));
  };
  std::vector<Choice> all;
  std::vector<std::uint64_t> of_sender(runs.node_of.size());
  const bool checks = std::any_of(runs.environment.begin(), runs.environment.end(),
                                  [](const auto& variable) { return variable.first == "SDP4BIT_CHECK"; });
  std::vector<Records> records(runs.node_of.size(), Records(checks));
  for (const sandboxNcclTransfer& transfer : noted) {
    const auto sender = static_cast<std::size_t>(transfer.sender);
    const Target target = target_of(transfer);
    const std::uint64_t number = ++of_sender.at(sender);
    records.at(sender).see(target);
    const bool held = runs.full_ledger || place_in_node(transfer.sender) == place_in_node(rank);
    const bool is_set = held && records.at(sender).set_entries();
    if (target == Target::gathered && !(is_set && runs.sets_entries)) continue;
    all.push_back({transfer, number});
  }
  return all;
}

/// One rank's side of all runs.
class Runner {
 public:
  Runner(const DamagedRuns& runs, RankContext& rank, std::atomic<unsigned>& failed_run)
      : runs_(runs), rank_(rank), aside_(rank), abortion_(failed_run) {}

  DamageFigures run() {
    record();
    std::mt19937 common(runs_.seed), own(runs_.seed * 131 + static_cast<unsigned>(rank_.rank));
    for (unsigned i = 0; i < runs_.runs; ++i) {
      const int receiver = static_cast<int>(common() % static_cast<unsigned>(rank_.ranks));
      run_once(i + 1, receiver, own);
    }
    return figures_;
  }

 private:
  /// Runs without damage: the outputs, what travels, and that a second time gives the same.
  void record() {
    for (const bool again : {false, true}) {
      const ncclComm_t comm = aside_.new_communicator();
      if (!again) sandboxNcclNoteTransfers(1);
      {
        Training training(runs_, rank_, comm);
        for (int step = 0; step < runs_.steps; ++step) {
          training.prepare(step);
          check(training.run(step));
          check(cudaStreamSynchronize(rank_.stream));
          if (!again) {
            expected_.push_back(training.output());
          } else {
            expect(compare(training.output(), expected_[static_cast<std::size_t>(step)]) == Likeness::equal,
                   "two runs give the same");
          }
        }
      }
      if (!again) {
        choices_ = choices(runs_, rank_.rank);
        sandboxNcclNoteTransfers(0);
      }
      check(ncclCommDestroy(comm));
    }
    expect(calls_of("reduce_scatter").compressed > 0, "gradients are compressed");
    expect(calls_of("all_gather").compressed > 0, "weights are compressed");
  }

  void run_once(unsigned number, int receiver, std::mt19937& random) {
    const ncclComm_t comm = aside_.new_communicator();
    abortion_.begin(number, comm);
    const bool mine = receiver == rank_.rank;
    const std::uint64_t damaged_before = sandboxNcclDamaged();
    Target target{};
    if (mine) target = plan(comm, random);
    bool failed = false, damaged = false;
    Likeness worst = Likeness::equal;
    {
      Training training(runs_, rank_, comm);
      // One step more where the damage came with the last one: an error shows at the next call.
      for (int step = 0; step < runs_.steps + (damaged ? 1 : 0); ++step) {
        training.prepare(std::min(step, runs_.steps - 1));
        const ncclResult_t result = training.run(step);
        if (result != ncclSuccess && !abortion_.aborted()) {
          failed = true;
          abortion_.say_failed();
          training.drop_graph();
          abortion_.abort();
        }
        const bool whole = cudaStreamSynchronize(rank_.stream) == cudaSuccess && result == ncclSuccess &&
                           !abortion_.aborted();
        if (whole && step < runs_.steps) {
          worst = std::max(worst, compare(training.output(), expected_[static_cast<std::size_t>(step)]));
        }
        if (!whole) training.drop_graph();
        // 2 ends the run, 1 says that the damage is done.
        const int news = aside_.maximum(!whole ? 2 : mine && sandboxNcclDamaged() > damaged_before ? 1 : 0);
        damaged = damaged || news != 0;
        if (news == 2) break;
      }
      training.drop_graph();
      abortion_.abort();
      (void)cudaStreamSynchronize(rank_.stream);
    }
    if (mine && runs_.damage == Damage::one_bit)
      expect(sandboxNcclDamaged() == damaged_before + 1, "the planned damage has happened");
    judge(mine, target, failed, worst);
  }

  Target plan(ncclComm_t comm, std::mt19937& random) {
    const Choice& choice = choices_[random() % choices_.size()];
    std::vector<unsigned char> mask(1, static_cast<unsigned char>(1u << random() % 8));
    std::uint64_t offset = random() % choice.transfer.bytes;
    if (runs_.damage == Damage::random_header) {
      constexpr std::uint64_t kField = 8;
      mask.resize(random() % 4 == 0 ? sizeof(MessageHeader) : 1 + random() % kField);
      for (unsigned char& byte : mask) byte = static_cast<unsigned char>(random());
      offset = mask.size() > kField ? 0 : random() % std::min<std::uint64_t>(choice.transfer.bytes, 64);
    }
    sandboxNcclDamageTransfer(comm, choice.transfer.sender, rank_.rank, choice.number, offset, mask.data(),
                              mask.size());
    return target_of(choice.transfer);
  }

  /// On the rank that got the damage; what others hold is part of it. Where it passes weights on, one of its
  /// node may have the error, and end the run, before it has.
  void judge(bool mine, Target target, bool mine_failed, Likeness mine_worst) {
    const int worst = aside_.maximum(static_cast<int>(mine_worst));
    const bool failed = aside_.maximum(mine_failed ? 1 : 0) != 0;
    if (!mine) return;
    ++figures_.runs;
    figures_.detected += failed && worst < 2;
    figures_.harmless += !failed && worst == 0;
    figures_.not_a_number += !failed && worst == 1;
    figures_.wrong += worst == 2;
    figures_.wrong_in_silence += !failed && worst == 2;
    figures_.handshakes += target == Target::handshake;
    figures_.records += target == Target::record;
    figures_.messages += target == Target::message;
    figures_.gathered += target == Target::gathered;
    figures_.hellos += target == Target::hello;
  }

  const DamagedRuns& runs_;
  RankContext& rank_;
  Aside aside_;
  Abortion abortion_;
  std::vector<Bytes> expected_;
  std::vector<Choice> choices_;
  DamageFigures figures_;
};

}  // namespace

DamageFigures run_damaged(const DamagedRuns& runs, std::vector<Outcome>& outcomes) {
  Environment environment = kCommon;
  // A rank that was told of damage calls no more, and its peers wait for it so long.
  environment.emplace_back("SANDBOX_NCCL_TIMEOUT", runs.damage == Damage::random_header ? "6" : "8");
  environment.insert(environment.end(), runs.environment.begin(), runs.environment.end());
  // Seen by all ranks, which are forked processes.
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<unsigned>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  expect(shared != MAP_FAILED, "mmap");
  auto* const failed_run = new (shared) std::atomic<unsigned>(0);
  const auto begin = std::chrono::steady_clock::now();
  outcomes = run_cluster(
      {.node_of = runs.node_of, .environment = environment, .timeout_seconds = runs.timeout_seconds},
      [&](RankContext& rank) {
        const DamageFigures figures = Runner(runs, rank, *failed_run).run();
        rank.result.resize(sizeof figures);
        std::memcpy(rank.result.data(), &figures, sizeof figures);
      });
  (void)::munmap(shared, sizeof(std::atomic<unsigned>));
  DamageFigures sum;
  const auto time = std::chrono::steady_clock::now() - begin;
  sum.seconds = static_cast<unsigned>(std::chrono::duration_cast<std::chrono::seconds>(time).count());
  for (const Outcome& outcome : outcomes) {
    if (outcome.result.size() != sizeof sum) continue;
    DamageFigures figures;
    std::memcpy(&figures, outcome.result.data(), sizeof figures);
    for (const auto field :
         {&DamageFigures::runs, &DamageFigures::detected, &DamageFigures::harmless,
          &DamageFigures::not_a_number, &DamageFigures::wrong, &DamageFigures::wrong_in_silence,
          &DamageFigures::handshakes, &DamageFigures::records, &DamageFigures::messages,
          &DamageFigures::gathered, &DamageFigures::hellos}) {
      sum.*field += figures.*field;
    }
  }
  return sum;
}

void print_figures(const DamagedRuns& runs, const DamageFigures& figures) {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  if (runs.damage == Damage::random_header) {
    std::printf(R"({"fuzz": "headers in flight, %s", "seconds": %u, "inputs": %llu, "findings": 0, )"
                R"("errors": %llu, "not_a_number": %llu})"
                "\n",
                runs.name, figures.seconds, number(figures.runs), number(figures.detected),
                number(figures.not_a_number));
  } else {
    std::printf(R"({"flips": %llu, "shape": "%s", "errors": %llu, "unread": %llu, "silent_nan": %llu, )"
                R"("other_numbers": %llu, "handshakes": %llu, "records": %llu, "messages": %llu, )"
                R"("gathered_shards": %llu, "hellos": %llu})"
                "\n",
                number(figures.runs), runs.name, number(figures.detected), number(figures.harmless),
                number(figures.not_a_number), number(figures.wrong), number(figures.handshakes),
                number(figures.records), number(figures.messages), number(figures.gathered),
                number(figures.hellos));
  }
  std::fflush(stdout);
}

}  // namespace sdp4bit::test

// One AllGather behind the first call, read several calls later.
#include "plugin/agreement.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "plugin/all_gather.h"
#include "plugin/boundary.h"
#include "plugin/break_even.h"
#include "plugin/driver.h"
#include "plugin/first_number.h"
#include "plugin/framework.h"
#include "plugin/handshake.h"
#include "plugin/log.h"
#include "plugin/plan_text.h"
#include "plugin/real_nccl.h"
#include "plugin/reduce_scatter.h"
#include "plugin/watchdog.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kRecord = sizeof(HandshakeRecord);
constexpr std::size_t kHello = 16;  // bytes to each peer when connecting
constexpr std::size_t kScratch = round_up(sizeof(DeviceWords), kMessageAlign);  // where they lie in `words`

class HandshakeCall final : public SingleCall {
 public:
  HandshakeCall(CommState& comm, Handshake& handshake, cudaStream_t stream)
      : comm_(comm), handshake_(handshake), stream_(stream) {}

  CommState& comm() override { return comm_; }
  cudaStream_t stream() const override { return stream_; }
  std::size_t chunk_count() const override { return 1; }
  std::size_t chunk_bytes(std::size_t) const override { return 0; }
  int step_count() const override { return 2; }
  const char* phase(int) const override { return "handshake"; }

  void launch_step(const Step& step) override {
    if (step.step == 0) {
      check(cudaMemcpyAsync(handshake_.device.data(), handshake_.host.data(), kRecord, cudaMemcpyHostToDevice,
                            step.stream));
    } else {
      check(cudaMemcpyAsync(handshake_.host.data() + kRecord, handshake_.device.data() + kRecord,
                            comm_.ranks * kRecord, cudaMemcpyDeviceToHost, step.stream));
      handshake_.arrived.record(step.stream);
    }
  }
  void exchange_step(const Step& step) override {
    if (step.step != 0) return;
    check(real_nccl().all_gather(handshake_.device.data(), handshake_.device.data() + kRecord, kRecord,
                                 ncclUint8, comm_.handle, step.stream));
  }

 private:
  CommState& comm_;
  Handshake& handshake_;
  cudaStream_t stream_;
};

/// First use of a peer blocks in GroupEnd until the peer comes: all ranks do it here, in the same group.
class ConnectingCall final : public SingleCall {
 public:
  ConnectingCall(CommState& comm, cudaStream_t stream) : comm_(comm), stream_(stream) {
    const Topology& topology = comm.topology;
    for (std::uint32_t rank = 0; rank < topology.ranks; ++rank) {
      if (rank == topology.rank) continue;
      const bool in_node = topology.node_of[rank] == topology.node;
      const bool in_column =
          topology.equal_nodes && topology.members[topology.node_of[rank]][topology.local_rank] == rank;
      if (!topology.equal_nodes || in_node || in_column) peers_.push_back(rank);
    }
  }

  CommState& comm() override { return comm_; }
  cudaStream_t stream() const override { return stream_; }
  std::size_t chunk_count() const override { return 1; }
  std::size_t chunk_bytes(std::size_t) const override { return 0; }
  int step_count() const override { return 1; }
  bool exchanges(int) const override { return true; }
  const char* phase(int) const override { return "connect"; }

  void launch_step(const Step& step) override {
    const RelaxedCapture relaxed;  // another thread may be capturing
    check(load_kernels());
    upload_segment_tables(comm_, step.stream);
  }
  void exchange_step(const Step& step) override {
    std::byte* const mine = comm_.words.data() + kScratch;
    for (const std::uint32_t peer : peers_) {
      check(real_nccl().send(mine, kHello, ncclUint8, static_cast<int>(peer), comm_.handle, step.stream));
      check(real_nccl().recv(mine + kHello * (1 + peer), kHello, ncclUint8, static_cast<int>(peer),
                             comm_.handle, step.stream));
    }
  }

 private:
  CommState& comm_;
  cudaStream_t stream_;
  std::vector<std::uint32_t> peers_;
};

/// The process's place in the job and the device: what tells this rank's noise from any other's.
std::int64_t noise_rank(const CommState& comm) {
  constexpr std::int64_t kDevices = 256;
  const std::int64_t process = job_rank();
  return process < 0 || process >= (std::int64_t{1} << 23) ? -1 : process * kDevices + comm.device % kDevices;
}

void give_back_memory(CommState& comm) {
  comm.stats.set_mirror(nullptr);
  comm.stats->workspace_bytes.store(0);
  comm.sampling.release();
  comm.checksums.release();
  comm.workspace.reset();
  comm.words.reset();
  comm.host_words.reset();
  comm.health.release();
}

/// What kernels count from.
DeviceCounters first_counters() {
  const std::uint64_t first = first_number();
  DeviceCounters counters;
  counters.draws = first;
  counters.gradients = counters.weights = {first, first};
  for (SampleSums& sums : counters.samples) sums.samples = 2 * first;
  return counters;
}

/// All that the handshake answers for; false, and nothing is kept, where a part of it cannot be had.
bool allocate_memory(CommState& comm) {
  comm.workspace = DeviceBuffer::try_allocate(config().workspace);
  comm.words = DeviceBuffer::try_allocate(kScratch + kHello * (1 + comm.ranks));
  comm.host_words = PinnedBuffer::try_allocate(sizeof(HostWords));
  const bool health = comm.health.allocate(comm.ranks);
  const bool checksums = !config().checksum || comm.checksums.allocate(comm.ranks);
  if (comm.workspace && comm.words && comm.host_words && health && checksums) {
    (new (comm.host_words.data()) HostWords)->counters = first_counters();
    comm.stats.set_mirror(comm.counter_mirror().host, comm.checksum_counts());
    comm.stats->workspace_bytes.store(comm.workspace.bytes());
    comm.sampling.allocate(config().sample_error);
    return true;
  }
  give_back_memory(comm);
  return false;
}

/// Waits for what `enqueue`(stream) does. Not on the NULL stream: a stream of ours waits for nobody.
template <typename Enqueue>
void run_alone(Enqueue enqueue) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const cudaError_t enqueued = enqueue(stream);
  const cudaError_t done = cudaStreamSynchronize(stream);
  (void)cudaStreamDestroy(stream);
  check(enqueued);
  check(done);
}

void zero(void* pointer, std::size_t bytes) {
  run_alone([&](cudaStream_t stream) { return cudaMemsetAsync(pointer, 0, bytes, stream); });
}

/// Of memory that is zero already.
void begin_counting(CommState& comm) {
  if (first_number() == 0) return;
  const DeviceCounters first = first_counters();
  run_alone([&](cudaStream_t stream) {
    return cudaMemcpyAsync(comm.counters(), &first, sizeof first, cudaMemcpyHostToDevice, stream);
  });
}

template <typename Done>
void poll(CommState& comm, const char* what, Done done, std::uint64_t call = 0) {
  constexpr auto kLongest = std::chrono::minutes(30);  // longer than any framework's own timeout
  const auto start = std::chrono::steady_clock::now();
  const WatchedWait watched(what, comm.subject(), call);
  for (unsigned round = 0;; ++round) {
    ncclResult_t state = ncclSuccess;
    {
      const StayFromAbort stay(comm);
      check(real_nccl().comm_get_async_error(comm.handle, &state));
    }
    check(state);
    if (done(state)) return;
    if (std::chrono::steady_clock::now() - start > kLongest) {
      throw Error(
          ncclSystemError,
          std::string(what) +
              " has not ended after 30 minutes: some rank is gone, or waits in another call; the logs of "
              "the other ranks say where");
    }
    if (round < 64) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

std::string describe(const CommState& comm) {
  return "communicator of " + std::to_string(comm.ranks) + " ranks" +
         (comm.origin.name.empty() ? "" : " \"" + comm.origin.name + "\"");
}

void say_engaged(const CommState& comm) {
  static Once once;
  const Topology& topology = comm.topology;
  const int version = real_nccl().version;
  const std::string text = describe(comm) + " on " + std::to_string(topology.node_count) +
                           (topology.node_count == 1 ? " node; " : " nodes; ") +
                           plan_text(topology, config(), comm.gradients_native);
  if (once.first()) {
    log_notice("works (version " SDP4BIT_VERSION ", NCCL %d.%d.%d, %s): %s", version / 10000,
               version / 100 % 100, version % 100, driver_text(CUDART_VERSION, found_driver()).c_str(),
               text.c_str());
  } else {
    log_info("compressed: %s", text.c_str());
  }
}

}  // namespace

PhasedCall* start_handshake(CommState& comm, cudaStream_t stream) {
  const RelaxedCapture relaxed;
  const Config& options = config();
  comm.handshake_started.store(true);
  const OwnAnswer own{
      .enabled = options.enable,
      .selected = selected_by_identity(
          options.comms,
          {.name = comm.origin.name, .ranks = comm.ranks, .job_size = job_size(), .part = comm.origin.part}),
      .blocking = comm.blocking,
      .pads_gradients = pads_gradients(),
      .abort_on_mismatch = options.on_mismatch == OnMismatch::abort,
      .hint = comm.hint.load()};
  const std::uint32_t bits = answer_bits(own, wants_workspace(own) && allocate_memory(comm));

  comm.handshake = std::make_unique<Handshake>();
  Handshake& handshake = *comm.handshake;
  handshake.device = DeviceBuffer(kRecord * (1 + comm.ranks));
  handshake.host = PinnedBuffer(kRecord * (1 + comm.ranks));
  if (options.check && comm.blocking) handshake.vote = std::make_unique<CheckVote>(comm);
  if (comm.workspace) {
    // An abort ends exchanges with nothing received, and the kernels behind them still run.
    zero(comm.workspace.data(), comm.workspace.bytes());
    zero(comm.words.data(), comm.words.bytes());
    begin_counting(comm);
    zero(comm.health.memory().data(), comm.health.memory().bytes());
    if (comm.checksums.on()) zero(comm.checksums.memory().data(), comm.checksums.memory().bytes());
  }
  const HandshakeRecord record = make_record(options, bits, noise_rank(comm));
  std::memcpy(handshake.host.data(), &record, sizeof record);
  handshake.call = std::make_unique<HandshakeCall>(comm, handshake, stream);
  return handshake.call.get();
}

void read_handshake(CommState& comm) {
  const RelaxedCapture relaxed;
  wait_bounded(
      comm, comm.handshake->arrived,
      "the handshake (if it does not end, some rank may run without sdp4bit: every rank needs LD_PRELOAD)");
  const std::unique_ptr<Handshake> handshake = std::move(comm.handshake);
  const std::span records(reinterpret_cast<const HandshakeRecord*>(handshake->host.data() + kRecord),
                          comm.ranks);
  // Where this rank is switched off, all ranks come to "off" whatever arrived here.
  const bool matters = config().enable || config().check;
  if (const std::int64_t rank = find_damaged(records); rank >= 0 && matters) {
    throw Error(ncclRemoteError, "the handshake of rank " + std::to_string(rank) +
                                     " arrived damaged: with it this rank alone would decide otherwise; " +
                                     kFindWhoDamages);
  }
  std::vector<std::uint64_t> hosts;
  for (const HandshakeRecord& record : records) hosts.push_back(record.host_hash);
  comm.topology = make_topology(hosts, comm.rank, config().local_size);
  comm.least_bytes = least_bytes(comm.topology, config());

  for (const Collective collective : kCollectives) {
    comm.native_shards[static_cast<std::size_t>(collective)] = native_shards(collective, comm.topology);
  }
  const Verdict verdict = judge(records, comm.topology, config());
  if (verdict.checks) {
    comm.vote = std::move(handshake->vote);
    comm.vote->begin_after(comm.clock.before_group());
  }
  comm.stats.agreed(verdict.agreement, comm.topology.node_count, verdict.reason);
  if (verdict.agreement == Agreement::on) {
    comm.noise = {.seed = config().seed,
                  .rank = verdict.job_ranks_differ ? static_cast<std::uint32_t>(noise_rank(comm)) : comm.rank,
                  .communicator = comm.number};
    comm.noise_schedule =
        noise_schedule(noise_key(comm.noise.seed, comm.noise.rank, comm.noise.communicator));
    comm.gradient_way = gradient_way(comm.topology, config());
    comm.gradient_plans.begin();
    comm.carried = verdict.carried;
    comm.weights = std::make_unique<WeightState>(comm);
    comm.agreement = Agreement::on;
    comm.gradients_native = verdict.gradients_native;
    say_engaged(comm);
    return;
  }
  comm.agreement = verdict.agreement;
  give_back_memory(comm);
  const std::string line = describe(comm) + " stays with NCCL: " + verdict.reason;
  if (verdict.abort) throw Error(ncclInvalidUsage, line + " (SDP4BIT_ON_MISMATCH=abort)");
  if (verdict.worth_a_line) {
    log_warn("%s", line.c_str());
  } else {
    log_info("%s", line.c_str());
  }
}

PhasedCall* start_connecting(CommState& comm, cudaStream_t stream) {
  comm.connecting = std::make_unique<ConnectingCall>(comm, stream);
  comm.connected = true;
  return comm.connecting.get();
}

void wait_bounded(CommState& comm, const Event& event, const char* what, std::uint64_t call) {
  if (!event.recorded()) throw Error(ncclInternalError, std::string(what) + " was never begun");
  poll(
      comm, what, [&](ncclResult_t) { return event.finished(); }, call);
}

void wait_bounded(CommState& comm, const std::function<bool()>& reached, const char* what) {
  poll(comm, what, [&](ncclResult_t) { return reached(); });
}

void wait_ready(CommState& comm) {
  poll(comm, "a communicator that does not block",
       [](ncclResult_t state) { return state != ncclInProgress; });
}

}  // namespace sdp4bit

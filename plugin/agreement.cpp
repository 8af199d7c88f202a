// One AllGather behind the first call, read several calls later.
#include "plugin/agreement.h"

#include <cstring>

#include "plugin/agreed_memory.h"
#include "plugin/all_gather.h"
#include "plugin/bounded_wait.h"
#include "plugin/break_even.h"
#include "plugin/driver.h"
#include "plugin/framework.h"
#include "plugin/handshake.h"
#include "plugin/log.h"
#include "plugin/plan_text.h"
#include "plugin/real_nccl.h"
#include "plugin/reduce_scatter.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kRecord = sizeof(HandshakeRecord);

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
  if (comm.workspace) initialize_memory(comm);
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

}  // namespace sdp4bit

// Memory of the device and pinned memory of a communicator, from its handshake on.
#include "plugin/agreed_memory.h"

#include <new>

#include "plugin/first_number.h"

namespace sdp4bit {
namespace {

/// What kernels count from.
DeviceCounters first_counters() {
  const std::uint64_t first = first_number();
  DeviceCounters counters;
  counters.draws = first;
  counters.gradients = counters.weights = {first, first};
  for (SampleSums& sums : counters.samples) sums.samples = 2 * first;
  return counters;
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

}  // namespace

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

/// An abort ends exchanges with nothing received, and the kernels behind them still run: they must not read
/// what was never written.
void initialize_memory(CommState& comm) {
  zero(comm.workspace.data(), comm.workspace.bytes());
  zero(comm.words.data(), comm.words.bytes());
  begin_counting(comm);
  zero(comm.health.memory().data(), comm.health.memory().bytes());
  if (comm.checksums.on()) zero(comm.checksums.memory().data(), comm.checksums.memory().bytes());
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

}  // namespace sdp4bit

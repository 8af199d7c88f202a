// Creation and mapping of shared segments, bells, and the liveness of processes.
#include "sandbox/nccl/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "sandbox/nccl/failure.h"

namespace sandbox::nccl {
namespace {

constexpr uint64_t kRingBudget =
    16u << 20;  // of one communicator, as long as no ring gets below the smallest size
constexpr uint64_t kLargestRing = 256u << 10;
constexpr uint64_t kSmallestRing = 16u << 10;
constexpr int kMaxRanks = 1024;

size_t records_offset() {
  return sizeof(SegmentHeader);
}
size_t channels_offset(int ranks) {
  return records_offset() + sizeof(RankRecord) * static_cast<size_t>(ranks);
}
size_t rings_offset(int ranks) {
  const size_t n = static_cast<size_t>(ranks);
  return (channels_offset(ranks) + sizeof(Channel) * n * n + 4095) / 4096 * 4096;
}

uint64_t ring_size(int ranks) {
  const uint64_t pairs = static_cast<uint64_t>(ranks) * static_cast<uint64_t>(ranks);
  return std::clamp(kRingBudget / pairs / 4096 * 4096, kSmallestRing, kLargestRing);
}

// Segments of this process, so that its ranks share one mapping.
struct Registry {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Segment>> mapped;
  std::map<uint64_t, int> descriptors;  // of segments created here and not yet complete
};

Registry& registry() {
  static Registry* const one = new Registry;  // outlives every thread and every static destructor
  return *one;
}

void* map_descriptor(int descriptor, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  require(memory != MAP_FAILED, ncclSystemError, text("cannot map shared memory: %s", std::strerror(errno)));
  return memory;
}

// One rank lays the segment out, the others wait the moment that takes.
void lay_out(SegmentHeader& header, int descriptor, int ranks) {
  uint32_t expected = 0;
  if (header.layout.compare_exchange_strong(expected, 1)) {
    header.ranks = ranks;
    header.ring_bytes = ring_size(ranks);
    header.total_bytes =
        rings_offset(ranks) + header.ring_bytes * static_cast<uint64_t>(ranks) * static_cast<uint64_t>(ranks);
    const bool grown = ftruncate(descriptor, static_cast<off_t>(header.total_bytes)) == 0;
    header.layout.store(grown ? 2 : 0);
    require(grown, ncclSystemError, text("cannot enlarge shared memory: %s", std::strerror(errno)));
    return;
  }
  while (header.layout.load() == 1) sched_yield();
  require(header.layout.load() == 2, ncclSystemError, "another rank could not set up the communicator");
}

}  // namespace

uint64_t process_start(int process) {
  const std::string path = text("/proc/%d/stat", process);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  char buffer[1024];
  const ssize_t length = read(descriptor, buffer, sizeof buffer - 1);
  close(descriptor);
  if (length <= 0) return 0;
  buffer[length] = '\0';
  // The name in parentheses may hold anything; the fields after it are plain.
  const char* rest = std::strrchr(buffer, ')');
  char state = 0;
  unsigned long long start = 0;
  if (rest == nullptr ||
      std::sscanf(rest + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                  &start) != 2) {
    return 0;
  }
  return state == 'Z' || state == 'X' ? 0 : start;
}

SegmentAddress Segment::create() {
  const int descriptor = memfd_create("sandbox-nccl", MFD_CLOEXEC);
  require(descriptor >= 0, ncclSystemError, text("cannot create shared memory: %s", std::strerror(errno)));
  SegmentAddress address{getpid(), descriptor, 0};
  if (ftruncate(descriptor, static_cast<off_t>(sizeof(SegmentHeader))) != 0 ||
      getrandom(&address.token, sizeof address.token, 0) != sizeof address.token) {
    close(descriptor);
    throw Failure{ncclSystemError, "cannot create shared memory"};
  }
  const std::lock_guard lock(registry().mutex);
  registry().descriptors[address.token] = descriptor;
  return address;
}

std::shared_ptr<Segment> Segment::attach(const SegmentAddress& address, int ranks) {
  require(ranks >= 1 && ranks <= kMaxRanks, ncclInvalidArgument, text("a communicator of %d ranks", ranks));
  std::shared_ptr<Segment> segment;  // outlives the lock: its destructor takes it too
  const std::lock_guard lock(registry().mutex);
  std::weak_ptr<Segment>& known = registry().mapped[address.token];
  segment = known.lock();
  if (segment == nullptr) {
    segment.reset(new Segment(address, ranks));
    known = segment;
  }
  require(segment->ranks() == ranks, ncclInvalidArgument,
          text("one rank says the communicator has %d ranks, another says %d", ranks, segment->ranks()));
  return segment;
}

Segment::Segment(const SegmentAddress& address, int ranks)
    : address_(address), ranks_(ranks), process_(getpid()) {
  const std::string path = text("/proc/%d/fd/%d", address.process, address.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  require(descriptor >= 0, ncclRemoteError,
          text("the process %d that made the unique id is gone or out of reach: %s", address.process,
               std::strerror(errno)));
  try {
    auto* first = static_cast<SegmentHeader*>(map_descriptor(descriptor, sizeof(SegmentHeader)));
    try {
      lay_out(*first, descriptor, ranks);
    } catch (...) {
      munmap(first, sizeof(SegmentHeader));
      throw;
    }
    const int agreed = first->ranks;
    ring_bytes_ = first->ring_bytes;
    total_bytes_ = first->total_bytes;
    munmap(first, sizeof(SegmentHeader));
    require(agreed == ranks, ncclInvalidArgument,
            text("one rank says the communicator has %d ranks, another says %d", ranks, agreed));
    auto* memory = static_cast<std::byte*>(map_descriptor(descriptor, total_bytes_));
    header_ = reinterpret_cast<SegmentHeader*>(memory);
    records_ = reinterpret_cast<RankRecord*>(memory + records_offset());
    channels_ = reinterpret_cast<Channel*>(memory + channels_offset(ranks));
    rings_ = memory + rings_offset(ranks);
  } catch (...) {
    close(descriptor);
    throw;
  }
  close(descriptor);
}

Segment::~Segment() {
  {
    const std::lock_guard lock(registry().mutex);
    const auto known = registry().mapped.find(address_.token);
    if (known != registry().mapped.end() && known->second.expired()) registry().mapped.erase(known);
  }
  if (header_ != nullptr) munmap(header_, total_bytes_);
}

void Segment::everyone_is_here() {
  const std::lock_guard lock(registry().mutex);
  const auto mine = registry().descriptors.find(address_.token);
  if (mine == registry().descriptors.end()) return;
  close(mine->second);
  registry().descriptors.erase(mine);
}

void Segment::wake(int rank) {
  RankRecord& record = records_[rank];
  record.bell.fetch_add(1, std::memory_order_seq_cst);
  if (record.sleepers.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&record.bell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Segment::wake_all() {
  for (int rank = 0; rank < ranks_; ++rank) wake(rank);
}

bool Segment::fail(ncclResult_t code, const std::string& what) {
  uint32_t expected = 0;
  if (!header_->failed.compare_exchange_strong(expected, 1)) return false;
  header_->failure_code = code;
  std::snprintf(header_->failure_text, sizeof header_->failure_text, "%s", what.c_str());
  header_->failed.store(2, std::memory_order_release);
  wake_all();
  return true;
}

bool Segment::alive(int rank) {
  const RankRecord& record = records_[rank];
  return record.process == process_ || process_start(record.process) == record.process_start;
}

void sleep_until_bell(RankRecord& record, uint32_t seen, int milliseconds) {
  const timespec limit{milliseconds / 1000, (milliseconds % 1000) * 1000000L};
  record.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (record.bell.load(std::memory_order_seq_cst) == seen) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&record.bell), FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
  record.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace sandbox::nccl

// usage: LD_PRELOAD=libsdp4bit.so host_cost [PROFILE]: what a call costs the thread that makes it, as ratios
// within one run. PROFILE is a file to write: how often each of the library's instructions ran, for where.py.
//
// passed through   an AllGather that stays native, called through the library, against the same call through
//                  a library of one line, and against NCCL's own function
// compressed       a ReduceScatter of ours against the NCCL calls and the kernel launches it is made of,
// called
//                  here one by one; the rest is the library's own
//
// One thread drives two devices that play two nodes. Times are CPU time of this thread, in rounds in which
// the variants take turns, each ratio the median of the ratios within a round: goals are 1.2 and 0.25. What
// is allowed leaves room for a busy machine. What no machine changes is how many instructions are the
// library's own: of those little more is allowed than there are.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "empty_kernel.h"
#include "instructions.h"

extern "C" {
ncclResult_t one_line_group_start();
ncclResult_t one_line_group_end();
ncclResult_t one_line_all_gather(const void* send, void* receive, size_t count, ncclDataType_t type,
                                 ncclComm_t comm, cudaStream_t stream);
}

namespace {

constexpr int kDevices = 2, kCallsInRound = 20;
constexpr std::size_t kRounds = 60;
constexpr std::size_t kCount = 4096;  // elements of a shard or a segment
constexpr std::size_t kMessage = 64 + kCount / 128 * 4 + kCount / 2;

void check(cudaError_t error, int line = __builtin_LINE()) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "host_cost: line %d: %s\n", line, cudaGetErrorString(error));
  std::exit(2);
}
void check(ncclResult_t result, int line = __builtin_LINE()) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "host_cost: line %d: %s\n", line, ncclGetErrorString(result));
  std::exit(2);
}

double microseconds_of_this_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Device {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t used = nullptr;
  float* large = nullptr;  // kDevices segments
  float* small = nullptr;
};

class Cluster {
 public:
  Cluster() {
    std::array<ncclComm_t, kDevices> comms{};
    check(ncclCommInitAll(comms.data(), kDevices, nullptr));
    for (int i = 0; i < kDevices; ++i) {
      Device& device = devices_[static_cast<std::size_t>(i)];
      check(cudaSetDevice(i));
      device.comm = comms[static_cast<std::size_t>(i)];
      check(cudaStreamCreate(&device.stream));
      check(cudaEventCreateWithFlags(&device.used, cudaEventDisableTiming));
      check(cudaEventRecord(device.used, device.stream));
      check(cudaMalloc(reinterpret_cast<void**>(&device.large), kDevices * kCount * sizeof(float)));
      check(cudaMalloc(reinterpret_cast<void**>(&device.small), kCount * sizeof(float)));
      check(cudaMemset(device.large, 0, kDevices * kCount * sizeof(float)));
      check(cudaMemset(device.small, 0, kCount * sizeof(float)));
    }
  }

  /// `call` for every device in one group; returns the thread's microseconds for each group.
  template <typename Call>
  double time_groups(const Call& call) {
    const double start = microseconds_of_this_thread();
    for (int i = 0; i < kCallsInRound; ++i) call(*this);
    const double spent = microseconds_of_this_thread() - start;
    for (Device& device : devices_) check(cudaStreamSynchronize(device.stream));
    return spent / kCallsInRound;
  }

  /// Instructions of the library for one group.
  template <typename Call>
  std::uint64_t instructions_of_group(const Call& call, InstructionProfile* profile) {
    const std::uint64_t counted = count_instructions(
        reinterpret_cast<const void*>(&ncclAllGather), [&] { call(*this); }, profile);
    for (Device& device : devices_) check(cudaStreamSynchronize(device.stream));
    return counted;
  }

  std::array<Device, kDevices>& devices() { return devices_; }

 private:
  std::array<Device, kDevices> devices_;
};

template <auto Start, auto AllGather, auto End>
void gather_bytes(Cluster& cluster) {
  check(Start());
  for (Device& device : cluster.devices()) {
    check(AllGather(device.small, device.large, kCount, ncclInt8, device.comm, device.stream));
  }
  check(End());
}
constexpr auto gather_directly = gather_bytes<&pncclGroupStart, &pncclAllGather, &pncclGroupEnd>;
constexpr auto gather_by_one_line =
    gather_bytes<&one_line_group_start, &one_line_all_gather, &one_line_group_end>;
/// As a program calls it: the preloaded library comes first.
constexpr auto gather_as_program = gather_bytes<&ncclGroupStart, &ncclAllGather, &ncclGroupEnd>;

void reduce(Cluster& cluster) {
  check(ncclGroupStart());
  for (Device& device : cluster.devices()) {
    check(ncclReduceScatter(device.large, device.small, kCount, ncclFloat32, ncclSum, device.comm,
                            device.stream));
  }
  check(ncclGroupEnd());
}

/// What a compressed ReduceScatter on one level enqueues: the hand-over of the workspace, encode, exchange,
/// decode.
void reduce_in_parts(Cluster& cluster) {
  for (int i = 0; i < kDevices; ++i) {
    Device& device = cluster.devices()[static_cast<std::size_t>(i)];
    check(cudaSetDevice(i));
    check(cudaStreamWaitEvent(device.stream, device.used, 0));
    check(launch_empty(device.stream));
  }
  check(pncclGroupStart());
  for (int i = 0; i < kDevices; ++i) {
    Device& device = cluster.devices()[static_cast<std::size_t>(i)];
    check(pncclSend(device.large, kMessage, ncclUint8, 1 - i, device.comm, device.stream));
    check(pncclRecv(device.small, kMessage, ncclUint8, 1 - i, device.comm, device.stream));
  }
  check(pncclGroupEnd());
  for (int i = 0; i < kDevices; ++i) {
    check(cudaSetDevice(i));
    const Device& device = cluster.devices()[static_cast<std::size_t>(i)];
    check(launch_empty(device.stream));
    check(cudaEventRecord(device.used, device.stream));
  }
}

bool is_preloaded() {
  const char* const preload = std::getenv("LD_PRELOAD");
  return preload && std::string(preload).find("libsdp4bit") != std::string::npos;
}

enum : std::size_t { kDirect, kOneLine, kProgram, kParts, kOurs, kVariants };
struct Variant {
  void (*call)(Cluster&);
  std::vector<double> times;  // of a group, by round
};
using Variants = std::array<Variant, kVariants>;

/// Whoever follows another finds the caches as that one left them: each follows each.
void time_in_turns(Cluster& cluster, Variants& variants) {
  for (Variant& variant : variants) variant.times.resize(kRounds);
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::size_t stride = 1 + round / kVariants % (kVariants - 1);
    for (std::size_t i = 0; i < kVariants; ++i) {
      Variant& variant = variants[(round + i * stride) % kVariants];
      variant.times[round] = cluster.time_groups(variant.call);
    }
  }
}

/// The ratio to the yardstick's time, or of what is added to that. False if it is more than allowed.
bool report_time(const char* what, const Variant& ours, const Variant& yardstick, bool added,
                 double allowed) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < kRounds; ++round)
    ratios.push_back(ours.times[round] / yardstick.times[round] - (added ? 1.0 : 0.0));
  const double ratio = median(ratios);
  std::printf("%-48s %8.2f us against %8.2f us: %.3f (allowed: %.2f)\n", what, median(ours.times),
              median(yardstick.times), ratio, allowed);
  return ratio <= allowed;
}

/// Where the instructions of some kind of call lie.
void write_profile(std::FILE* file, const char* kind, const InstructionProfile& profile) {
  for (std::size_t i = 0; i < profile.runs.size(); ++i) {
    if (profile.runs[i] != 0) std::fprintf(file, "%s %zx %u\n", kind, profile.first + i, profile.runs[i]);
  }
}

/// False if there are more than allowed.
bool report_instructions(const char* what, std::uint64_t counted, std::uint64_t allowed) {
  std::printf("%-48s %8llu instructions (allowed: %llu)\n", what, static_cast<unsigned long long>(counted),
              static_cast<unsigned long long>(allowed));
  return counted <= allowed;
}

}  // namespace

int main(int argument_count, char** arguments) {
  setenv("SANDBOX_DEVICES", "2", 0);
  setenv("SDP4BIT_LOCAL_SIZE", "1", 0);
  setenv("SDP4BIT_MIN_BYTES", "0", 0);
  setenv("SDP4BIT_COMMS", "all", 0);
  if (!is_preloaded()) {
    std::fprintf(stderr, "host_cost: LD_PRELOAD holds no libsdp4bit.so: there is nothing to measure\n");
    return 2;
  }
  Cluster cluster;
  for (int i = 0; i < 3; ++i) {  // warm, agreed, and past the first look at gradients
    for (int call = 0; call < 40; ++call) reduce(cluster);
    gather_as_program(cluster);
    for (Device& device : cluster.devices()) check(cudaStreamSynchronize(device.stream));
  }
  std::printf("A group of %d calls takes\n", kDevices);
  InstructionProfile passed_through, compressed;
  bool good = report_instructions("passed through, in the library",
                                  cluster.instructions_of_group(gather_as_program, &passed_through), 1500);
  good = report_instructions("compressed, in the library", cluster.instructions_of_group(reduce, &compressed),
                             7900) &&
         good;
  if (argument_count > 1) {
    std::FILE* const file = std::fopen(arguments[1], "w");
    if (file == nullptr) {
      std::fprintf(stderr, "host_cost: %s cannot be written\n", arguments[1]);
      return 2;
    }
    write_profile(file, "passed-through", passed_through);
    write_profile(file, "compressed", compressed);
    std::fclose(file);
  }

  Variants variants{{{gather_directly, {}},
                     {gather_by_one_line, {}},
                     {gather_as_program, {}},
                     {reduce_in_parts, {}},
                     {reduce, {}}}};
  time_in_turns(cluster, variants);
  good = report_time("passed through, to a one-line forwarder", variants[kProgram], variants[kOneLine], false,
                     1.4) &&
         good;
  good = report_time("passed through, to NCCL's own function", variants[kProgram], variants[kDirect], false,
                     1.4) &&
         good;
  good = report_time("compressed, the library's own to its calls", variants[kOurs], variants[kParts], true,
                     0.40) &&
         good;
  return good ? 0 : 1;
}

/* A C99 program that reduces and gathers on four devices of two nodes and reads the library's counters by
 * nothing but the public header. usage: statistics_api [preloaded [killed]]: whether the library has to be
 * there; and to end after a while without a word, as a program does that is killed. */
#define _POSIX_C_SOURCE 200809L
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sdp4bit/sdp4bit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kRanks = 4, kCount = 3000, kReductions = 6, kGathers = 20 };

static void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

static ncclComm_t comms[kRanks];
static cudaStream_t streams[kRanks];
static unsigned char* buffers[kRanks];

static void synchronize(void) {
  int rank;
  for (rank = 0; rank < kRanks; ++rank) {
    require(cudaSetDevice(rank) == cudaSuccess, "cudaSetDevice");
    require(cudaStreamSynchronize(streams[rank]) == cudaSuccess, "cudaStreamSynchronize");
  }
}

static void run(int gather) {
  int rank;
  require(ncclGroupStart() == ncclSuccess, "ncclGroupStart");
  for (rank = 0; rank < kRanks; ++rank) {
    unsigned char* own = buffers[rank] + (size_t)rank * kCount * 2;
    ncclResult_t result =
        gather ? ncclAllGather(own, buffers[rank], kCount, ncclBfloat16, comms[rank], streams[rank])
               : ncclReduceScatter(buffers[rank], own, kCount, ncclBfloat16, ncclAvg, comms[rank],
                                   streams[rank]);
    require(result == ncclSuccess, "a collective");
  }
  require(ncclGroupEnd() == ncclSuccess, "ncclGroupEnd");
  synchronize();
}

/* Every option accepts its own default; rows end; unknown names are none. */
static void read_options(const sdp4bitFunctions* library) {
  sdp4bitOption option;
  char facts[512];
  size_t i, set = 0;
  for (i = 0;; ++i) {
    option.size = sizeof option;
    if (library->get_option(i, &option) != 0) break;
    require(strncmp(option.name, "SDP4BIT_", 8) == 0 && *option.accepted && *option.help, "a row");
    require(library->check_option(option.name, option.default_value) == 1 || !*option.default_value,
            "a default is accepted");
    set += option.given != NULL;
    if (strcmp(option.name, "SDP4BIT_LOCAL_SIZE") == 0)
      require(strcmp(option.value, "2") == 0 && option.given && strcmp(option.given, "2") == 0 &&
                  strcmp(option.default_value, "0") == 0 && !option.is_refused && option.shapes_wire,
              "the value of the environment");
  }
  require(i > 25 && set >= 3, "as many rows as options, with those that are set");
  option.size = offsetof(sdp4bitOption, accepted);
  option.accepted = NULL;
  require(library->get_option(0, &option) == 0 && option.size == offsetof(sdp4bitOption, accepted) &&
              option.default_value && !option.accepted,
          "a caller that knows fewer fields gets those");
  require(library->check_option("SDP4BIT_SEED", "4bits") == 0, "a bad value");
  require(library->check_option("SDP4BIT_NONE", "1") == -1, "an unknown option");
  require(library->build_facts(facts, sizeof facts) > 0 && strstr(facts, "\narchitectures=") &&
              strstr(facts, "\ncuda_runtime=") && strstr(facts, "\noldest_nccl=2"),
          "facts of the build");
}

static void read_counters(const sdp4bitFunctions* library) {
  sdp4bitStatistics all, one;
  const char* name = NULL;
  uint64_t calls = 0, sum = 0, compressed = 0;
  char text[64];
  size_t i, length;
  all.size = one.size = sizeof all;
  require(library->get_statistics(NULL, "reduce_scatter", &all) == 0, "statistics of the process");
  require(library->get_statistics(comms[1], "reduce_scatter", &one) == 0, "statistics of a communicator");
  require(one.calls == kReductions && all.calls == kRanks * one.calls, "calls");
  require(one.compressed_calls == kReductions - 3, "calls behind the handshake are compressed");
  require(
      one.sent_bytes_between_nodes > 0 && one.sent_bytes_between_nodes * 3 < one.native_bytes_between_nodes,
      "fewer bytes between nodes");
  require(library->get_calls("reduce_scatter", &sum, &compressed) == 0, "sdp4bitGetCalls");
  require(sum == all.calls && compressed == all.compressed_calls, "both functions say the same");
  for (i = 0, sum = 0; library->get_outcome(comms[1], "reduce_scatter", i, &name, &calls) == 0; ++i)
    sum += calls;
  require(i > 10 && sum == one.calls, "outcomes add up");
  length = library->why_native(comms[0], "all_gather", text, sizeof text);
  require(length == strlen("compressed") && strcmp(text, "compressed") == 0, "why");
}

int main(int argc, char** argv) {
  sdp4bitFunctions library;
  const int loaded = sdp4bitLoad(&library);
  int rank, i;
  require(loaded == (argc > 1 && strcmp(argv[1], "preloaded") == 0), "the library is there or not, as told");
  require(loaded || library.get_calls == NULL, "without the library all functions are NULL");
  require(ncclCommInitAll(comms, kRanks, NULL) == ncclSuccess, "ncclCommInitAll");
  for (rank = 0; rank < kRanks; ++rank) {
    require(cudaSetDevice(rank) == cudaSuccess, "cudaSetDevice");
    require(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking) == cudaSuccess, "a stream");
    require(cudaMalloc((void**)&buffers[rank], (size_t)kRanks * kCount * 2) == cudaSuccess, "cudaMalloc");
    require(cudaMemset(buffers[rank], 0x3f, (size_t)kRanks * kCount * 2) == cudaSuccess, "cudaMemset");
    require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  }
  for (i = 0; i < kReductions; ++i) run(0);
  for (i = 0; i < kGathers; ++i) run(1);
  if (loaded) {
    read_counters(&library);
    read_options(&library);
  }
  if (argc > 2) {
    sleep(2);
    _exit(0);
  }
  for (rank = 0; rank < kRanks; ++rank)
    require(ncclCommDestroy(comms[rank]) == ncclSuccess, "ncclCommDestroy");
  puts("all counters are as they must be");
  return 0;
}

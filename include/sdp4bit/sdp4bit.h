/* The public interface of libsdp4bit.so, C99. Nobody links to the library: it is preloaded, and a program
 * that wants to talk to it finds these functions by dlsym(RTLD_DEFAULT, name); sdp4bitLoad() below does that
 * for all of them. A program that runs without the library finds none, and goes on. */
#ifndef SDP4BIT_SDP4BIT_H
#define SDP4BIT_SDP4BIT_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char* sdp4bitVersion(void);
typedef const char* (*sdp4bitVersionFunction)(void);

/* Text functions write up to `capacity` bytes, a final zero included, and return the length of the whole text
 * without it; capacity 0 with buffer NULL asks for the length. */
typedef size_t (*sdp4bitTextFunction)(char* buffer, size_t capacity);
/* The options as a table for documentation, and as NAME=value lines with the values in force. */
size_t sdp4bitOptionsMarkdown(char* buffer, size_t capacity);
size_t sdp4bitOptionsInForce(char* buffer, size_t capacity);
/* Facts of the build as NAME=value lines: version; cuda_runtime, CUDA's version code; oldest_driver, the
 * branch of NVIDIA's drivers from which on it runs (580; 0 where the library does not know); architectures, a
 * list as CMAKE_CUDA_ARCHITECTURES takes it; oldest_nccl, a version code. */
size_t sdp4bitBuildFacts(char* buffer, size_t capacity);
/* What SDP4BIT_STATS and SDP4BIT_METRICS write, now. */
size_t sdp4bitStatisticsJson(char* buffer, size_t capacity);
size_t sdp4bitStatisticsPrometheus(char* buffer, size_t capacity);

/* One option. `size` is set by the caller to sizeof the structure that it knows, as below. The texts live as
 * long as the process. */
typedef struct {
  size_t size;
  const char* name;          /* of the environment variable: "SDP4BIT_MIN_BYTES" */
  const char* default_value; /* "1M"; "" where there is none; not a preset's */
  const char* accepted;      /* which values are, for people */
  const char* help;
  const char* value; /* in force in this process */
  const char* given; /* the environment's text, NULL where it has none */
  int is_refused;    /* the environment's text was not taken, so the default, or the preset's, is in force */
  int shapes_wire;   /* must be equal on all ranks */
} sdp4bitOption;
/* The `index`-th option, in the order of documentation; -1 behind the last. Nothing is logged. */
int sdp4bitGetOption(size_t index, sdp4bitOption* option);
typedef int (*sdp4bitGetOptionFunction)(size_t index, sdp4bitOption* option);
/* Whether `text` is a value of the option of that name: 1 or 0; -1 if there is no such option. */
int sdp4bitCheckOption(const char* name, const char* text);
typedef int (*sdp4bitCheckOptionFunction)(const char* name, const char* text);

/* Functions below name an NCCL function by "reduce_scatter" or "all_gather", and a communicator by its
 * ncclComm_t; NULL is the process, all its communicators together. Unless said otherwise they return 0, or -1
 * for an unknown function name or communicator, and never wait for the device. */

/* Calls so far: all, and those that were compressed. Either pointer may be NULL. */
int sdp4bitGetCalls(const char* collective, uint64_t* all, uint64_t* compressed);
typedef int (*sdp4bitGetCallsFunction)(const char* collective, uint64_t* all, uint64_t* compressed);

/* For a process that loaded the library after NCCL's callers were bound, instead of preloading it: from now
 * on their calls come here, also those of objects loaded later. Call it before communicators are used. `door`
 * is NULL; NCCL's plugins pass "net" or "profiler". Returns how many references to NCCL lead here, or -1 if
 * none were taken; the log says why. */
int sdp4bitTakeCalls(const char* door);
typedef int (*sdp4bitTakeCallsFunction)(const char* door);

/* One function's counters, in one communicator or in the process. `size` is set by the caller to sizeof the
 * structure that it knows: later versions append fields, and fill what both know. docs/statistics.md explains
 * each. */
typedef struct {
  size_t size;
  uint64_t calls, compressed_calls, captured_calls, executed_calls;
  uint64_t elements, bytes_given, compressed_bytes_given; /* of the larger buffer */
  uint64_t native_bytes_in_node, native_bytes_between_nodes;
  uint64_t sent_bytes_in_node, sent_bytes_between_nodes;
  uint64_t sends, gathers;
  uint64_t nonfinite_groups_sent, nonfinite_groups_received;
  uint64_t workspace_bytes, ledger_bytes, sample_bytes, record_bytes; /* of both functions together */
  uint64_t checksums_verified, checksums_failed;                      /* SDP4BIT_CHECKSUM=1 */
} sdp4bitStatistics;
int sdp4bitGetStatistics(void* communicator, const char* collective, sdp4bitStatistics* statistics);
typedef int (*sdp4bitGetStatisticsFunction)(void* communicator, const char* collective,
                                            sdp4bitStatistics* statistics);

/* What became of calls: the `index`-th of all outcomes, "compressed" or a reason to stay native, and how many
 * calls had it. Returns -1 behind the last outcome. The name lives as long as the process. */
int sdp4bitGetOutcome(void* communicator, const char* collective, size_t index, const char** name,
                      uint64_t* calls);
typedef int (*sdp4bitGetOutcomeFunction)(void* communicator, const char* collective, size_t index,
                                         const char** name, uint64_t* calls);

/* What became of the communicator's last call of that function, for people: "compressed", or the reason that
 * it went to NCCL, with what the ranks agreed on. A text function otherwise; 0 for an unknown name or
 * communicator. The communicator must not be NULL. */
size_t sdp4bitWhyNative(void* communicator, const char* collective, char* buffer, size_t capacity);
typedef size_t (*sdp4bitWhyNativeFunction)(void* communicator, const char* collective, char* buffer,
                                           size_t capacity);

/* What follows is heard only where every rank of the communicator says it; one rank alone changes nothing. */

/* Before the first ReduceScatter and AllGather on a communicator: what it carries, `|` of the constants, 0
 * for neither. The library then takes those calls whatever the communicator's name and size, and leaves the
 * others to NCCL. All other conditions (nodes, sizes, types) stay. Returns 1 where it comes too late. */
enum { SDP4BIT_CARRIES_GRADIENTS = 1, SDP4BIT_CARRIES_WEIGHTS = 2 };
int sdp4bitHint(void* communicator, unsigned carries);
typedef int (*sdp4bitHintFunction)(void* communicator, unsigned carries);

/* All weights of a communicator will change at once, or move: its classes of AllGathers go back to learning
 * when the request of the last rank has arrived, a few calls later, and are native meanwhile. A class that is
 * native for good stays so. May be called at any time, by any thread. */
int sdp4bitResetWeights(void* communicator);
typedef int (*sdp4bitResetWeightsFunction)(void* communicator);

/* All of them, NULL where the loaded library has no such function. */
typedef struct {
  sdp4bitVersionFunction version;
  sdp4bitTextFunction options_markdown, options_in_force, statistics_json, statistics_prometheus;
  sdp4bitGetCallsFunction get_calls;
  sdp4bitGetStatisticsFunction get_statistics;
  sdp4bitGetOutcomeFunction get_outcome;
  sdp4bitWhyNativeFunction why_native;
  sdp4bitHintFunction hint;
  sdp4bitResetWeightsFunction reset_weights;
  sdp4bitTakeCallsFunction take_calls;
  sdp4bitTextFunction build_facts;
  sdp4bitGetOptionFunction get_option;
  sdp4bitCheckOptionFunction check_option;
} sdp4bitFunctions;

/* Fills `functions`; returns 1 if the library is in the process, else 0 and only NULLs. (dlopen(NULL) finds
 * what is preloaded, as RTLD_DEFAULT does, which strict C99 does not have; RTLD_NOLOAD, which finds what NCCL
 * loaded as its plugin, is glibc's.) */
static inline int sdp4bitLoad(sdp4bitFunctions* functions) {
  void* program = dlopen(NULL, RTLD_LAZY);
  memset(functions, 0, sizeof *functions);
#ifdef RTLD_NOLOAD
  if (program && !dlsym(program, "sdp4bitVersion")) {
    dlclose(program);
    program = dlopen("libsdp4bit.so.0", RTLD_LAZY | RTLD_NOLOAD);
  }
#endif
  if (!program) return 0;
/* C99 has no cast from data to function pointers. */
#define SDP4BIT_LOAD(field, name)                      \
  do {                                                 \
    void* const symbol = dlsym(program, name);         \
    memcpy(&functions->field, &symbol, sizeof symbol); \
  } while (0)
  SDP4BIT_LOAD(version, "sdp4bitVersion");
  SDP4BIT_LOAD(options_markdown, "sdp4bitOptionsMarkdown");
  SDP4BIT_LOAD(options_in_force, "sdp4bitOptionsInForce");
  SDP4BIT_LOAD(statistics_json, "sdp4bitStatisticsJson");
  SDP4BIT_LOAD(statistics_prometheus, "sdp4bitStatisticsPrometheus");
  SDP4BIT_LOAD(get_calls, "sdp4bitGetCalls");
  SDP4BIT_LOAD(get_statistics, "sdp4bitGetStatistics");
  SDP4BIT_LOAD(get_outcome, "sdp4bitGetOutcome");
  SDP4BIT_LOAD(why_native, "sdp4bitWhyNative");
  SDP4BIT_LOAD(hint, "sdp4bitHint");
  SDP4BIT_LOAD(reset_weights, "sdp4bitResetWeights");
  SDP4BIT_LOAD(take_calls, "sdp4bitTakeCalls");
  SDP4BIT_LOAD(build_facts, "sdp4bitBuildFacts");
  SDP4BIT_LOAD(get_option, "sdp4bitGetOption");
  SDP4BIT_LOAD(check_option, "sdp4bitCheckOption");
#undef SDP4BIT_LOAD
  dlclose(program);
  return functions->version != NULL;
}

#ifdef __cplusplus
}
#endif
#endif

// A random program as data: a cluster, its options, weights and steps; the same on all ranks but for sets of
// ranks.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sdp4bit::model {

/// Bit r stands for rank r of the job.
using RankSet = std::uint32_t;
inline constexpr RankSet kAllRanks = ~RankSet{0};
[[nodiscard]] inline bool has(RankSet set, int rank) {
  return (set >> rank & 1u) != 0;
}

inline constexpr int kStreams = 4;  // of each rank; the last one is the legacy default stream

/// Ranks are numbered process by process.
struct Process {
  int node = 0;  // its NCCL_HOSTID
  int devices = 1;
};

/// `process` -1: of all processes.
struct Variable {
  int process = -1;
  std::string name, value;
};

/// What an AllGather gathers: each rank of the communicator owns a shard of `count` elements, and has one
/// receive buffer and one send buffer for it.
struct Weight {
  int comm = 0;
  std::size_t count = 1;
  ncclDataType_t type = ncclBfloat16;
  bool misaligned = false;
  bool odd = false;  // by bytes too, not by whole elements alone
  RankSet kept = 0;  // here the own slice of the receive buffer is the optimizer's only copy
};

/// send_recv: around a ring. The last three are NCCL's alone.
enum class Function { reduce_scatter, all_gather, all_reduce, broadcast, send_recv };
enum class Reduction { sum, avg, scaled, max };  // scaled: PreMulSum
enum class Data { whole, normal, sparse, large };

struct Call {
  std::uint64_t key = 0;  // of its data: the same whatever other steps there are
  Function function = Function::reduce_scatter;
  int comm = 0;    // an AllGather has its weight's
  int buffer = 0;  // which buffers it uses; AllGather: its weight
  std::size_t count = 1;
  ncclDataType_t type = ncclFloat32;
  Reduction reduction = Reduction::sum;
  double factor = 0.5;  // scaled
  bool factor_on_device = false;
  Data data = Data::whole;
  int bad_rank = -1;  // of the communicator: its input holds a NaN
  double drift = 0;   // AllGather: how far the weights walk before it
  int stream = 0;
  RankSet other_stream = 0;  // these use the next stream
  RankSet in_place = 0;
  int misaligned = 0;     // not AllGather: 0, or a number that says by how much on each rank
  bool odd = false;       // then by bytes too
  RankSet overwrite = 0;  // these overwrite their buffers right behind the call
  int nested = 0;         // pairs of GroupStart and GroupEnd around it
};

enum class Action {
  create,       // communicator `target` from `from`, by colors (-1: not in it); `from` -1: all ranks
  destroy,      // communicator `target`
  abort,        // communicator `target`, when all of it is idle but for `calls`: `ranks` alone make those
  revoke,       // the same, then it refuses calls and is destroyed
  hint,         // `ranks` say that communicator `target` carries `carries`
  reset,        // `ranks` ask that the weights of communicator `target` are learned anew
  group,        // calls; a single one is issued without a group
  differ,       // one call, of one element more on `ranks`, where ranks compare their calls
  capture,      // graph `target` of the calls, on `stream`
  replay,       // graph `target`, on `stream`
  simulate,     // the calls in a group that `ranks` only simulate
  refused,      // a call with a type that does not exist, by `ranks`
  release,      // the buffers `target` of ReduceScatters: the next use allocates anew
  reload,       // the shards of weight `target` that belong to `ranks` become others
  scribble,     // garbage, and a NaN, into receive buffers of weight `target`
  move,         // receive buffers of weight `target` get new memory
  exchange,     // receive buffers of weights `target` and `from`
  delay,        // `ranks` are late: on the host, or on a stream
  synchronize,  // all streams of `ranks`
};

/// How a communicator comes from another one; the last one also aborts what its parent does.
enum class Birth { split, shrink, shrink_abort };

struct Step {
  std::uint64_t key = 0;  // of its data
  Action action = Action::synchronize;
  int target = 0;
  int from = -1;
  std::vector<int> colors = {};
  bool reversed = false;  // create: keys turn the order of ranks around
  Birth birth = Birth::split;
  std::string name = {};      // create: ncclConfig_t's, given by ...
  RankSet named = kAllRanks;  // ... these
  RankSet nonblocking = 0;    // create: these ranks' calls on it may return before they are done
  unsigned carries = 0;       // hint
  RankSet ranks = kAllRanks;
  RankSet starved = 0;     // group: on these ranks the next allocation of device memory fails
  bool finalized = false;  // destroy: every rank finalizes the communicator before
  int stream = -1;
  int milliseconds = 0;
  std::vector<Call> calls = {};
};

struct Program {
  std::uint64_t seed = 0;
  bool threads = true;  // a thread for each device of a process; else one thread with groups
  std::vector<Process> processes;
  std::vector<Variable> variables;
  std::vector<Weight> weights;
  std::vector<Step> steps;

  [[nodiscard]] int ranks() const;
  [[nodiscard]] int process_of(int rank) const;
  [[nodiscard]] std::string variable(const std::string& name, int process,
                                     const std::string& otherwise) const;
};

/// One line a thing; parse(print(p)) prints the same. parse throws std::runtime_error.
[[nodiscard]] std::string print(const Program& program);
[[nodiscard]] Program parse(const std::string& text);

/// Those that the library may take.
[[nodiscard]] inline bool is_ours(Function function) {
  return function == Function::reduce_scatter || function == Function::all_gather;
}
[[nodiscard]] std::size_t bytes_of(ncclDataType_t type);
[[nodiscard]] const char* name_of(ncclDataType_t type);
[[nodiscard]] const char* name_of(Function function);

}  // namespace sdp4bit::model

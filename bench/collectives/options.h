// The command line: what to measure, on how many ranks, how to print it.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "element.h"

namespace collectives {

enum class Collective { kReduceScatter, kAllGather };
enum class Reduction { kNone, kSum, kAverage, kPreMulSum };
enum class Format { kTable, kCsv, kJson };

const char* name_of(Collective collective);
const char* name_of(Reduction reduction);

struct Options {
  std::vector<Collective> collectives{Collective::kReduceScatter, Collective::kAllGather};
  std::vector<ElementType> types{element_types()[0]};
  std::vector<Reduction> reductions{Reduction::kSum};
  std::size_t min_bytes = 1 << 20;
  std::size_t max_bytes = 1 << 20;
  std::size_t factor = 2;
  int iterations = 20;
  int warmup = 5;
  int ranks_per_node = 1;
  int nodes = 1;
  std::uint64_t seed = 1;
  std::optional<bool> in_place;  // unset: reduce_scatter out of place, all_gather in place
  bool check = true;
  bool help = false;
  Format format = Format::kTable;
  std::string id_file;  // set: started by mpirun, torchrun or srun; empty: starts its own ranks
};

// Throws std::invalid_argument with a text for the user.
Options parse_options(int argc, char** argv);

extern const char* const kUsage;

}  // namespace collectives

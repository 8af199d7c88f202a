// Ranks are processes: starts them on this machine, or finds out which one this is when someone else started
// it.
#pragma once

#include <nccl.h>

#include <string>

#include "options.h"

namespace collectives {

struct RankIdentity {
  int rank;
  int ranks;
  int local_rank;  // among the ranks of this machine: chooses the device
};

// Runs this program once per rank, as torchrun would, and waits for all. Returns the exit status for the
// user.
int start_ranks(const Options& options, int argc, char** argv);

// Reads RANK and WORLD_SIZE (torchrun and start_ranks), or what mpirun or srun set.
RankIdentity identify_rank();

// Makes the communicator's id on rank 0 and hands it to the others through a file that must not exist yet.
ncclUniqueId share_unique_id(const std::string& path, const RankIdentity& identity);

}  // namespace collectives

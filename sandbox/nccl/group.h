// Groups: what a thread issued since its outermost GroupStart, and what happens at the end.
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>

#include "sandbox/nccl/operation.h"

namespace sandbox::nccl {

class Communicator;

// The creation of a communicator, or what else blocks until other ranks do the same.
struct Job {
  std::shared_ptr<Communicator>
      communicator;              // whose state shows the progress; its helper runs a non-blocking job
  ncclComm_t* handle = nullptr;  // set back to NULL if a blocking job fails
  std::function<void()> run;     // throws Failure or Aborted
};

void group_start();
// Returns ncclSuccess, or ncclInProgress for non-blocking communicators. Throws Failure.
ncclResult_t group_end();
// Ends the outermost group without running anything.
void group_discard();
// An error inside a group is the group's result.
void note_group_error(ncclResult_t code);

// Both run at once where no group is open, and return what group_end returns; inside a group they return
// ncclSuccess (or ncclInProgress, where the communicator is non-blocking).
ncclResult_t submit(const std::shared_ptr<Communicator>& communicator, Operation operation);
ncclResult_t submit(Job job);

}  // namespace sandbox::nccl

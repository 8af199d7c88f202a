// Counts the bytes that operations must move from rank to rank, see extension.h for the rules.
#pragma once

#include <cstdint>

#include "sandbox/nccl/signature.h"

namespace sandbox::nccl {

class Communicator;

// Adds this rank's share of a finished operation to the counters.
void count_collective(Communicator& communicator, const Signature& signature);
void count_send(Communicator& communicator, const Signature& signature);
void count_receive(const Signature& signature);
// Counts a group of operations that was given to a stream.
void count_launch();
// Keeps the table of a communicator that leaves for the print at exit.
void keep_traffic_of(Communicator& communicator);

}  // namespace sandbox::nccl

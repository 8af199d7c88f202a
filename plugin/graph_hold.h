// Ties the life of a communicator's state to that of a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

namespace sdp4bit {

class CommState;

/// Work on a captured stream uses the state's memory and events: it lives on, whatever becomes of the
/// communicator, until the graph and all that was instantiated or cloned from it are gone.
void hold_in_graph(cudaGraph_t graph, std::shared_ptr<CommState> comm);

}  // namespace sdp4bit

// Shared owners in CUDA user objects; see graph_hold.h.
#include "plugin/graph_hold.h"

#include <utility>

#include "plugin/comm_state.h"
#include "plugin/error.h"

namespace sdp4bit {
namespace {

/// Runs on a thread of CUDA's that may not call CUDA: owners of memory and events only retire them.
void CUDART_CB let_go(void* holder) {
  delete static_cast<std::shared_ptr<CommState>*>(holder);
}

}  // namespace

void hold_in_graph(cudaGraph_t graph, std::shared_ptr<CommState> comm) {
  auto holder = std::make_unique<std::shared_ptr<CommState>>(std::move(comm));
  cudaUserObject_t object = nullptr;
  check(cudaUserObjectCreate(&object, holder.get(), let_go, 1, cudaUserObjectNoDestructorSync));
  (void)holder.release();  // the object's
  const cudaError_t retained = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  if (retained != cudaSuccess) (void)cudaUserObjectRelease(object, 1);
  check(retained);
}

}  // namespace sdp4bit

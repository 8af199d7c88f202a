// Stream capture: sessions, their streams and frontiers, and the rules about illegal calls.
#include "capture.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "graph.h"

namespace sandbox::cudart {
namespace {

/// One capture sequence, from begin to end. Everything here is guarded by graph_mutex().
struct Capture {
  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id owner;
  StreamPtr origin;
  bool invalid = false;
  std::shared_ptr<Graph> graph;
  bool own_graph = true;
  /// What the next work of each stream depends on.
  std::map<StreamPtr, std::vector<GraphNode*>> frontiers;
  /// Handles of the last query, kept valid until the next one on the stream.
  std::map<const Stream*, std::vector<cudaGraphNode_t>> queried;
};
using CapturePtr = std::shared_ptr<Capture>;

std::vector<CapturePtr>& captures() {
  static auto& active = *new std::vector<CapturePtr>;
  return active;
}
/// Lets every call outside of captures pass without a lock.
std::atomic<int> g_captures{0};
std::uint64_t g_next_capture_id = 1;
thread_local cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;

std::vector<GraphNode*>* frontier_of(Capture& capture, const Stream& stream) {
  for (auto& [member, frontier] : capture.frontiers) {
    if (member.get() == &stream) return &frontier;
  }
  return nullptr;
}

CapturePtr capture_of(const Stream& stream) {
  for (const auto& capture : captures()) {
    if (frontier_of(*capture, stream) != nullptr) return capture;
  }
  return nullptr;
}

CapturePtr capture_with(std::uint64_t id) {
  for (const auto& capture : captures()) {
    if (capture->id == id) return capture;
  }
  return nullptr;
}

[[noreturn]] void invalidate(Capture& capture, cudaError_t code) {
  capture.invalid = true;
  fail(code);
}

CapturePtr valid_capture_of(const Stream& stream) {
  auto capture = capture_of(stream);
  if (capture != nullptr && capture->invalid) fail(cudaErrorStreamCaptureInvalidated);
  return capture;
}

/// The NULL stream waits for every blocking stream, so it would wait for one that is capturing.
void refuse_implicit(const Stream& stream) {
  if (stream.kind != Stream::Kind::legacy) return;
  bool found = false;
  for (const auto& capture : captures()) {
    for (const auto& [member, frontier] : capture->frontiers) {
      if (member->kind == Stream::Kind::blocking && &member->device == &stream.device) {
        capture->invalid = true;
        found = true;
      }
    }
  }
  if (found) fail(cudaErrorStreamCaptureImplicit);
}

void unite(std::vector<GraphNode*>& frontier, const std::vector<GraphNode*>& more) {
  for (GraphNode* node : more) {
    if (std::find(frontier.begin(), frontier.end(), node) == frontier.end()) frontier.push_back(node);
  }
}

/// Is everything that the other streams did reachable from the origin's end?
bool joined(Capture& capture) {
  std::vector<GraphNode*> open = *frontier_of(capture, *capture.origin);
  std::set<const GraphNode*> reached(open.begin(), open.end());
  while (!open.empty()) {
    GraphNode* node = open.back();
    open.pop_back();
    for (GraphNode* before : node->dependencies) {
      if (reached.insert(before).second) open.push_back(before);
    }
  }
  for (const auto& [member, frontier] : capture.frontiers) {
    for (const GraphNode* node : frontier) {
      if (!reached.contains(node)) return false;
    }
  }
  return true;
}

void finish(const CapturePtr& capture) {
  std::erase(captures(), capture);
  g_captures.fetch_sub(1);
}

void begin(Stream& stream, cudaStreamCaptureMode mode, std::shared_ptr<Graph> graph, bool own_graph,
           std::vector<GraphNode*> frontier) {
  require(mode == cudaStreamCaptureModeGlobal || mode == cudaStreamCaptureModeThreadLocal ||
          mode == cudaStreamCaptureModeRelaxed);
  if (stream.kind == Stream::Kind::legacy) fail(cudaErrorStreamCaptureUnsupported);
  std::lock_guard lock(graph_mutex());
  if (capture_of(stream) != nullptr) fail(cudaErrorIllegalState);
  auto capture = std::make_shared<Capture>();
  capture->id = g_next_capture_id++;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->origin = stream.shared_from_this();
  capture->graph = std::move(graph);
  capture->own_graph = own_graph;
  capture->frontiers.emplace(capture->origin, std::move(frontier));
  captures().push_back(std::move(capture));
  g_captures.fetch_add(1);
}

std::shared_ptr<Graph> end(Stream& stream) {
  CapturePtr capture;
  std::lock_guard lock(graph_mutex());
  capture = capture_of(stream);
  if (capture == nullptr) fail(cudaErrorIllegalState);
  if (capture->origin.get() != &stream) invalidate(*capture, cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->owner != std::this_thread::get_id()) {
    invalidate(*capture, cudaErrorStreamCaptureWrongThread);
  }
  finish(capture);
  if (capture->invalid) fail(cudaErrorStreamCaptureInvalidated);
  if (!joined(*capture)) fail(cudaErrorStreamCaptureUnjoined);
  return capture->graph;
}

}  // namespace

bool capture_operation(Stream& stream, const OperationPtr& operation) {
  if (g_captures.load() == 0) return false;
  std::lock_guard lock(graph_mutex());
  refuse_implicit(stream);
  const auto capture = valid_capture_of(stream);
  if (capture == nullptr) return false;
  auto& frontier = *frontier_of(*capture, stream);
  frontier = {capture->graph->add(operation, stream.device, frontier)};
  return true;
}

void refuse_capture_of(Stream& stream) {
  if (g_captures.load() == 0) return;
  std::lock_guard lock(graph_mutex());
  refuse_implicit(stream);
  if (const auto capture = valid_capture_of(stream); capture != nullptr) {
    invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  }
}

void refuse_capture(Stream& stream) {
  refuse_capture_of(stream);
  refuse_unsafe_call();
}

void refuse_capture_on(Device& device) {
  if (g_captures.load() == 0) return;
  {
    std::lock_guard lock(graph_mutex());
    bool found = false;
    for (const auto& capture : captures()) {
      for (const auto& [member, frontier] : capture->frontiers) {
        if (&member->device == &device) found = capture->invalid = true;
      }
    }
    if (found) fail(cudaErrorStreamCaptureUnsupported);
  }
  refuse_unsafe_call();
}

void refuse_unsafe_call() {
  if (g_captures.load() == 0 || t_mode == cudaStreamCaptureModeRelaxed) return;
  std::lock_guard lock(graph_mutex());
  bool found = false;
  for (const auto& capture : captures()) {
    const bool own =
        capture->owner == std::this_thread::get_id() && capture->mode != cudaStreamCaptureModeRelaxed;
    const bool global = t_mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (own || global) found = capture->invalid = true;
  }
  if (found) fail(cudaErrorStreamCaptureUnsupported);
}

bool capture_event_record(Stream& stream, const EventPtr& event) {
  if (g_captures.load() == 0) return false;
  std::lock_guard lock(graph_mutex());
  refuse_implicit(stream);
  const auto capture = valid_capture_of(stream);
  if (capture == nullptr) return false;
  event->captured = {capture->id, *frontier_of(*capture, stream)};
  return true;
}

bool capture_event_wait(Stream& stream, const EventPtr& event) {
  std::lock_guard lock(graph_mutex());
  if (g_captures.load() > 0) refuse_implicit(stream);
  const auto mine = valid_capture_of(stream);
  if (event->captured.capture_id == 0) {
    if (mine != nullptr) invalidate(*mine, cudaErrorStreamCaptureIsolation);
    return false;
  }
  const auto theirs = capture_with(event->captured.capture_id);
  if (theirs == nullptr) fail(cudaErrorCapturedEvent);
  if (theirs->invalid) fail(cudaErrorStreamCaptureInvalidated);
  if (mine != nullptr && mine != theirs) {
    mine->invalid = true;
    invalidate(*theirs, cudaErrorStreamCaptureMerge);
  }
  if (mine == nullptr) {
    if (stream.kind == Stream::Kind::legacy) invalidate(*theirs, cudaErrorStreamCaptureImplicit);
    theirs->frontiers.emplace(stream.shared_from_this(), event->captured.frontier);
  } else {
    unite(*frontier_of(*mine, stream), event->captured.frontier);
  }
  return true;
}

void refuse_captured_event(const EventPtr& event) {
  std::lock_guard lock(graph_mutex());
  if (event->captured.capture_id == 0) return;
  if (const auto capture = capture_with(event->captured.capture_id); capture != nullptr)
    capture->invalid = true;
  fail(cudaErrorCapturedEvent);
}

void forget_captured_record(const EventPtr& event) {
  std::lock_guard lock(graph_mutex());
  event->captured = {};
}

void abandon_capture(Stream& stream) {
  CapturePtr dropped;
  if (g_captures.load() == 0) return;
  std::lock_guard lock(graph_mutex());
  const auto capture = capture_of(stream);
  if (capture == nullptr) return;
  dropped = capture;  // what the nodes hold goes after the lock
  capture->invalid = true;
  if (capture->origin.get() != &stream) return;
  finish(capture);
  if (capture->own_graph) graph_table().remove(capture->graph.get());
}

}  // namespace sandbox::cudart

using namespace sandbox::cudart;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    auto graph = std::make_shared<Graph>();
    begin(*target, mode, graph, true, {});
    graph_table().insert(graph);
  });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData* dependencyData, size_t numDependencies,
                                          cudaStreamCaptureMode mode) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    auto into = graph_table().get(graph, cudaErrorInvalidValue);
    require_plain_edges(dependencyData, numDependencies);
    auto frontier = resolve_nodes(dependencies, numDependencies, into.get());
    begin(*target, mode, std::move(into), false, std::move(frontier));
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    require(pGraph != nullptr);
    *pGraph = nullptr;
    std::shared_ptr<Graph> abandoned;
    {
      std::lock_guard lock(graph_mutex());
      if (const auto capture = capture_of(*target); capture != nullptr && capture->own_graph) {
        abandoned = capture->graph;
      }
    }
    try {
      *pGraph = end(*target)->handle();
    } catch (const Failure&) {
      std::unique_lock lock(graph_mutex());
      const bool ended = capture_of(*target) == nullptr;
      lock.unlock();
      if (ended && abandoned != nullptr) graph_table().remove(abandoned.get());
      throw;
    }
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    require(pCaptureStatus != nullptr);
    std::lock_guard lock(graph_mutex());
    if (target->kind == Stream::Kind::legacy) refuse_implicit(*target);
    const auto capture = capture_of(*target);
    *pCaptureStatus = capture == nullptr ? cudaStreamCaptureStatusNone
                      : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out,
                                     unsigned long long* id_out, cudaGraph_t* graph_out,
                                     const cudaGraphNode_t** dependencies_out,
                                     const cudaGraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    require(captureStatus_out != nullptr);
    std::lock_guard lock(graph_mutex());
    if (target->kind == Stream::Kind::legacy) refuse_implicit(*target);
    const auto capture = capture_of(*target);
    *captureStatus_out = capture == nullptr ? cudaStreamCaptureStatusNone
                         : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive;
    if (capture == nullptr || capture->invalid) return;
    if (id_out != nullptr) *id_out = capture->id;
    if (graph_out != nullptr) *graph_out = capture->graph->handle();
    auto& handles = capture->queried[target.get()];
    handles.clear();
    for (GraphNode* node : *frontier_of(*capture, *target)) handles.push_back(node->handle());
    if (dependencies_out != nullptr) *dependencies_out = handles.data();
    if (edgeData_out != nullptr) *edgeData_out = nullptr;
    if (numDependencies_out != nullptr) *numDependencies_out = handles.size();
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                const cudaGraphEdgeData* dependencyData,
                                                size_t numDependencies, unsigned int flags) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    require(flags == cudaStreamAddCaptureDependencies || flags == cudaStreamSetCaptureDependencies);
    require_plain_edges(dependencyData, numDependencies);
    CapturePtr capture;
    {
      std::lock_guard lock(graph_mutex());
      capture = valid_capture_of(*target);
      if (capture == nullptr) fail(cudaErrorIllegalState);
    }
    const auto nodes = resolve_nodes(dependencies, numDependencies, capture->graph.get());
    std::lock_guard lock(graph_mutex());
    auto& frontier = *frontier_of(*capture, *target);
    if (flags == cudaStreamSetCaptureDependencies) frontier.clear();
    unite(frontier, nodes);
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return entry([&] {
    enter_process();
    require(mode != nullptr && *mode >= cudaStreamCaptureModeGlobal && *mode <= cudaStreamCaptureModeRelaxed);
    std::swap(*mode, t_mode);
  });
}

}  // extern "C"

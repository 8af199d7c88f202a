// A rank's streams and communicators; see rank.h.
#include "rank.h"

#include <dlfcn.h>
#include <sdp4bit/sdp4bit.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace sdp4bit::model {
namespace {

constexpr std::array kFactors{0.5, 0.375, 2.0};
constexpr std::array kFactorTypes{ncclFloat32, ncclFloat16, ncclBfloat16};
constexpr std::size_t kFactorBytes = 8;

std::size_t factor_offset(const Call& call) {
  const auto factor = std::find(kFactors.begin(), kFactors.end(), call.factor) - kFactors.begin();
  const auto type = std::find(kFactorTypes.begin(), kFactorTypes.end(), call.type) - kFactorTypes.begin();
  return static_cast<std::size_t>(type * static_cast<std::ptrdiff_t>(kFactors.size()) + factor) *
         kFactorBytes;
}

const sdp4bitFunctions& library() {
  static const sdp4bitFunctions functions = [] {
    sdp4bitFunctions found;
    if (!sdp4bitLoad(&found)) throw std::runtime_error("the library is not preloaded");
    return found;
  }();
  return functions;
}

}  // namespace

Rank::Rank(const Program& program, const Plan& plan, Trace& trace, int rank, int device)
    : program_(program), plan_(plan), trace_(trace), rank_(rank), device_(device) {
  select();
  for (std::size_t i = 0; i + 1 < streams_.size(); ++i) {
    check(cudaStreamCreateWithFlags(&streams_[i], cudaStreamNonBlocking));
  }
  std::array<std::byte, kFactors.size() * kFactorTypes.size() * kFactorBytes> values{};
  for (const ncclDataType_t type : kFactorTypes) {
    for (const double factor : kFactors) {
      store(type, values.data() + factor_offset({.type = type, .factor = factor}), factor);
    }
  }
  check(cudaMalloc(reinterpret_cast<void**>(&factors_), values.size()));
  check(cudaMemcpy(factors_, values.data(), values.size(), cudaMemcpyHostToDevice));
}

Rank::~Rank() {
  (void)cudaSetDevice(device_);
  for (const auto& [number, graph] : graphs_) (void)cudaGraphExecDestroy(graph.executable);
  (void)cudaFree(factors_);
  for (const cudaStream_t stream : streams_) {
    if (stream) (void)cudaStreamDestroy(stream);
  }
}

bool Rank::takes_part(const Call& call) const {
  return comms_.contains(comm_of(program_, call));
}

const Communicator& Rank::communicator(const Call& call) const {
  return plan_.communicators[static_cast<std::size_t>(plan_.communicator_of(comm_of(program_, call), rank_))];
}

int Rank::place(const Call& call) const {
  return place_of(communicator(call), rank_);
}

int Rank::stream_of(const Call& call) const {
  return (call.stream + (has(call.other_stream, rank_) ? 1 : 0)) % kStreams;
}

void Rank::offer_id(const Step& step) const {
  const int index = plan_.communicator_of(step.target, rank_);
  if (step.from >= 0 || place_of(plan_.communicators[static_cast<std::size_t>(index)], rank_) != 0) return;
  Shared& shared = trace_.shared();
  check(ncclGetUniqueId(&shared.ids[static_cast<std::size_t>(index)]));
  shared.id_is_there[static_cast<std::size_t>(index)].store(1);
}

void Rank::create(const Step& step) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (has(step.nonblocking, rank_)) config.blocking = 0;
  if (!step.name.empty() && has(step.named, rank_)) config.commName = step.name.c_str();
  const bool plain = config.blocking == NCCL_CONFIG_UNDEF_INT && config.commName == nullptr;
  ncclConfig_t* const given = plain ? nullptr : &config;
  if (step.from < 0) {
    const auto index = static_cast<std::size_t>(plan_.communicator_of(step.target, rank_));
    const Communicator& all = plan_.communicators[index];
    Shared& shared = trace_.shared();
    while (shared.id_is_there[index].load() == 0) {
      if (shared.failed.load() != 0) throw std::runtime_error("another rank failed");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    const int own = place_of(all, rank_);
    check(plain ? ncclCommInitRank(&comms_[step.target], all.ranks(), shared.ids[index], own)
                : ncclCommInitRankConfig(&comms_[step.target], all.ranks(), shared.ids[index], own, given));
    return;
  }
  const auto parent = comms_.find(step.from);
  if (parent == comms_.end()) return;
  const Communicator& whole =
      plan_.communicators[static_cast<std::size_t>(plan_.communicator_of(step.from, rank_))];
  const int own = place_of(whole, rank_);
  const int color = color_of(step, static_cast<std::size_t>(own));
  if (step.birth == Birth::split) {
    check(ncclCommSplit(parent->second, color < 0 ? NCCL_SPLIT_NOCOLOR : color, step.reversed ? -own : own,
                        &comms_[step.target], given));
    return;
  }
  std::vector<int> excluded;
  for (int place = 0; place < whole.ranks(); ++place) {
    if (color_of(step, static_cast<std::size_t>(place)) < 0) excluded.push_back(place);
  }
  if (color < 0) return;
  check(ncclCommShrink(parent->second, excluded.data(), static_cast<int>(excluded.size()),
                       &comms_[step.target], given,
                       step.birth == Birth::shrink ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT));
}

void Rank::created(const Step& step) {
  settle();
  const auto found = comms_.find(step.target);
  if (found != comms_.end() && found->second == nullptr) comms_.erase(found);
}

/// What follows on a stream must not overtake a call that NCCL has yet to enqueue.
void Rank::settle() const {
  for (const auto& [number, comm] : comms_) {
    const int index = plan_.communicator_of(number, rank_);
    if (!comm || !has(plan_.communicators[static_cast<std::size_t>(index)].nonblocking, rank_)) continue;
    wait_for(comm);
  }
}

void Rank::wait_for(ncclComm_t comm) const {
  ncclResult_t state = ncclInProgress;
  for (check(ncclCommGetAsyncError(comm, &state)); state == ncclInProgress;
       check(ncclCommGetAsyncError(comm, &state))) {
    if (trace_.shared().failed.load() != 0) throw std::runtime_error("another rank failed");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  check(state);
}

/// NCCL waits for a communicator's graphs before it lets go of it.
void Rank::forget_graphs_of(int comm) {
  for (auto graph = graphs_.begin(); graph != graphs_.end();) {
    if (graph->second.comms.contains(comm)) {
      check(cudaGraphExecDestroy(graph->second.executable));
      graph = graphs_.erase(graph);
    } else {
      ++graph;
    }
  }
}

void Rank::destroy(int number, bool finalizes) {
  const auto found = comms_.find(number);
  if (found == comms_.end()) return;
  forget_graphs_of(number);
  if (finalizes) {
    check(ncclCommFinalize(found->second));
    wait_for(found->second);
    expect_refusals(number);
  }
  check(ncclCommDestroy(std::exchange(found->second, nullptr)));
  comms_.erase(found);
}

/// Other threads may still be in calls on it: who calls this lets them return, then forgets it.
void Rank::abort(int number) {
  const auto found = comms_.find(number);
  if (found == comms_.end()) return;
  forget_graphs_of(number);
  check(ncclCommAbort(found->second));
}

void Rank::revoke(int number) {
  const auto found = comms_.find(number);
  if (found == comms_.end()) return;
  forget_graphs_of(number);
  check(ncclCommRevoke(found->second, NCCL_REVOKE_DEFAULT));
}

void Rank::forget(int number) {
  comms_.erase(number);
}

void Rank::expect_refusals(int number) {
  const auto found = comms_.find(number);
  if (found == comms_.end()) return;
  const ncclResult_t result =
      ncclReduceScatter(factors_, factors_, 1, ncclFloat32, ncclSum, found->second, streams_[0]);
  if (result == ncclSuccess || result == ncclInProgress)
    throw std::runtime_error("a communicator that was revoked or finalized takes calls");
}

void Rank::hint(const Step& step) {
  const auto found = comms_.find(step.target);
  if (!has(step.ranks, rank_) || found == comms_.end()) return;
  if (library().hint(found->second, step.carries) < 0)
    throw std::runtime_error("the hint was not understood");
}

void Rank::reset(const Step& step) {
  const auto found = comms_.find(step.target);
  // -1 before its first call: there is nothing to forget.
  if (has(step.ranks, rank_) && found != comms_.end()) (void)library().reset_weights(found->second);
}

void Rank::refused(const Step& step) {
  const auto found = comms_.find(step.target);
  if (!has(step.ranks, rank_) || found == comms_.end()) return;
  constexpr ncclDataType_t kNoType = ncclNumTypes;
  const ncclResult_t gather = ncclAllGather(factors_, factors_, 1, kNoType, found->second, streams_[0]);
  const ncclResult_t gradient =
      ncclReduceScatter(factors_, factors_, 1, kNoType, ncclSum, found->second, streams_[0]);
  if (gather != ncclInvalidArgument || gradient != ncclInvalidArgument)
    throw std::runtime_error("not refused");
}

std::byte* Rank::factor_of(const Call& call) const {
  return factors_ + factor_offset(call);
}

void Rank::delay(const Step& step) const {
  if (!has(step.ranks, rank_)) return;
  const auto time = std::chrono::milliseconds(step.milliseconds);
  if (step.stream < 0) {
    std::this_thread::sleep_for(time);
    return;
  }
  const auto sleep = [](void* milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(reinterpret_cast<std::intptr_t>(milliseconds)));
  };
  check(cudaLaunchHostFunc(streams_[static_cast<std::size_t>(step.stream % kStreams)], sleep,
                           reinterpret_cast<void*>(static_cast<std::intptr_t>(step.milliseconds))));
}

void Rank::synchronize() const {
  for (const cudaStream_t stream : streams_) check(cudaStreamSynchronize(stream));
}

}  // namespace sdp4bit::model

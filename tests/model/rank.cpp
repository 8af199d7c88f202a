// What one rank does; see rank.h.
#include "rank.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace sdp4bit::model {
namespace {

constexpr std::byte kCanary{0xc5};
constexpr std::array kFactors{0.5, 0.375, 2.0};
constexpr std::array kFactorTypes{ncclFloat32, ncclFloat16, ncclBfloat16};
constexpr std::size_t kFactorBytes = 8;

std::size_t factor_offset(const Call& call) {
  const auto factor = std::find(kFactors.begin(), kFactors.end(), call.factor) - kFactors.begin();
  const auto type = std::find(kFactorTypes.begin(), kFactorTypes.end(), call.type) - kFactorTypes.begin();
  return static_cast<std::size_t>(type * static_cast<std::ptrdiff_t>(kFactors.size()) + factor) *
         kFactorBytes;
}

}  // namespace

void check(cudaError_t error, const char* file, int line) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + cudaGetErrorName(error));
  }
}

void check(ncclResult_t result, const char* file, int line) {
  if (result != ncclSuccess) {
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " +
                             ncclGetErrorString(result));
  }
}

Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes));
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  check(cudaMemset(data_, std::to_integer<int>(kCanary), bytes));
  check(cudaStreamSynchronize(nullptr));
}

void Memory::swap(Memory& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(event_, other.event_);
  std::swap(stream_, other.stream_);
  std::swap(used_, other.used_);
}

void Memory::release() {
  if (data_) (void)cudaFree(std::exchange(data_, nullptr));
  if (event_) (void)cudaEventDestroy(std::exchange(event_, nullptr));
  used_ = false;
}

void Memory::begin_use(cudaStream_t stream) {
  if (used_ && stream_ != stream) check(cudaStreamWaitEvent(stream, event_, 0));
}

void Memory::end_use(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream));
  stream_ = stream;
  used_ = true;
}

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
  if (step.from < 0) {
    const auto index = static_cast<std::size_t>(plan_.communicator_of(step.target, rank_));
    const Communicator& all = plan_.communicators[index];
    Shared& shared = trace_.shared();
    while (shared.id_is_there[index].load() == 0) {
      if (shared.failed.load() != 0) throw std::runtime_error("another rank failed");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    check(ncclCommInitRank(&comms_[step.target], all.ranks(), shared.ids[index], place_of(all, rank_)));
    return;
  }
  const auto parent = comms_.find(step.from);
  if (parent == comms_.end()) return;
  const Communicator& whole =
      plan_.communicators[static_cast<std::size_t>(plan_.communicator_of(step.from, rank_))];
  const int own = place_of(whole, rank_);
  const int color = step.colors.empty() ? 0 : step.colors[static_cast<std::size_t>(own) % step.colors.size()];
  check(ncclCommSplit(parent->second, color < 0 ? NCCL_SPLIT_NOCOLOR : color, step.reversed ? -own : own,
                      &comms_[step.target], nullptr));
}

void Rank::created(const Step& step) {
  const auto found = comms_.find(step.target);
  if (found != comms_.end() && found->second == nullptr) comms_.erase(found);
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

void Rank::destroy(int number) {
  const auto found = comms_.find(number);
  if (found == comms_.end()) return;
  forget_graphs_of(number);
  check(ncclCommDestroy(found->second));
  comms_.erase(found);
}

void Rank::abort(int number) {
  const auto found = comms_.find(number);
  if (found == comms_.end()) return;
  forget_graphs_of(number);
  check(ncclCommAbort(found->second));
  comms_.erase(found);
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

Memory& Rank::gradient_memory(const Call& call) {
  Memory& memory = gradients_[call.buffer];
  if (memory) return memory;
  std::size_t bytes = 0;
  for (const Execution& execution : plan_.executions) {
    const Call& other = *execution.call;
    const Communicator& of_other = plan_.communicators[execution.communicator];
    const int own = place_of(of_other, rank_);
    if (own < 0 || other.function != Function::reduce_scatter || other.buffer != call.buffer) continue;
    bytes = std::max(bytes, Plan::areas(other, rank_, own, of_other.ranks()).bytes);
  }
  // A graph that is never replayed has no execution.
  bytes = std::max(bytes, Plan::areas(call, rank_, place(call), communicator(call).ranks()).bytes);
  memory = Memory(bytes);
  return memory;
}

Rank::Buffer Rank::new_buffer(std::size_t bytes, const Weight& weight, std::uint64_t key) const {
  const std::size_t elements =
      weight.misaligned ? mix(key, static_cast<std::uint64_t>(rank_)) % (kMostShift + 1) : 0;
  return {Memory(bytes), elements * bytes_of(weight.type)};
}

Rank::Buffer& Rank::receive_buffer(int weight) {
  Buffer& buffer = receives_[weight];
  if (buffer.memory) return buffer;
  const Weight& what = program_.weights[static_cast<std::size_t>(weight)];
  const Communicator& of_weight =
      plan_.communicators[static_cast<std::size_t>(plan_.communicator_of(what.comm, rank_))];
  return buffer = new_buffer(plan_.receive_bytes(what, of_weight.ranks()), what, ++generation_);
}

Rank::Buffer& Rank::send_buffer(int weight) {
  Buffer& buffer = sends_[weight];
  if (buffer.memory) return buffer;
  const Weight& what = program_.weights[static_cast<std::size_t>(weight)];
  return buffer = new_buffer(plan_.send_bytes(what), what, ++generation_);
}

Master& Rank::master(int weight) {
  const auto found = masters_.find(weight);
  if (found != masters_.end()) return found->second;
  const Weight& what = program_.weights[static_cast<std::size_t>(weight)];
  const int index = plan_.communicator_of(what.comm, rank_);
  const int own = place_of(plan_.communicators[static_cast<std::size_t>(index)], rank_);
  return masters_.emplace(weight, Master(program_.seed, weight, own, what.count)).first->second;
}

void Rank::prepare(std::size_t step, const Call& call, std::uint64_t repeat, int stream) {
  const int index = plan_.communicator_of(comm_of(program_, call), rank_);
  for (const std::size_t number : plan_.of_step[step]) {
    const Execution& execution = plan_.executions[number];
    if (execution.call != &call || execution.communicator != static_cast<std::size_t>(index)) continue;
    std::byte* const at = trace_.records() + execution.record[static_cast<std::size_t>(place(call))];
    const std::size_t capacity = plan_.capacity(call, rank_, place(call), communicator(call).ranks());
    pending_[&call] = {reinterpret_cast<Record*>(at), at + sizeof(Record), at + sizeof(Record) + capacity,
                       capacity};
    std::fill_n(pending_[&call].image, capacity, kCanary);
  }
  const cudaStream_t on = streams_[static_cast<std::size_t>(stream)];
  if (call.function == Function::reduce_scatter) {
    prepare_gradient(call, repeat, on);
  } else {
    prepare_gather(call, on);
  }
}

void Rank::prepare_gradient(const Call& call, std::uint64_t repeat, cudaStream_t stream) {
  const Pending& pending = pending_.at(&call);
  const int ranks = communicator(call).ranks();
  const GradientAreas areas = Plan::areas(call, rank_, place(call), ranks);
  Memory& memory = gradient_memory(call);
  store_all(call.type, pending.image + areas.send, gradient_input(call, repeat, place(call), ranks));
  *pending.record = {.receive_address = reinterpret_cast<std::uint64_t>(memory.data() + areas.receive),
                     .output_offset = areas.receive,
                     .touched = 0};
  memory.begin_use(stream);
  check(cudaMemcpyAsync(memory.data(), pending.image, areas.bytes, cudaMemcpyHostToDevice, stream));
}

void Rank::prepare_gather(const Call& call, cudaStream_t stream) {
  const Pending& pending = pending_.at(&call);
  const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
  Master& own = master(call.buffer);
  own.walk(call);
  Buffer& receive = receive_buffer(call.buffer);
  Buffer& send = send_buffer(call.buffer);
  const std::size_t shard_bytes = weight.count * bytes_of(weight.type);
  std::byte* const image = pending.image + receive.memory.bytes();
  std::byte* const shard = image + kMargin + send.shift;
  store_all(weight.type, shard, own.shard(weight, call));
  *pending.record = {
      .receive_address = reinterpret_cast<std::uint64_t>(receive.memory.data() + kMargin + receive.shift),
      .output_offset = kMargin + receive.shift,
      .touched = 0};
  receive.memory.begin_use(stream);
  send.memory.begin_use(stream);
  check(cudaMemcpyAsync(send.memory.data(), image, send.memory.bytes(), cudaMemcpyHostToDevice, stream));
  if (!has(call.in_place, rank_)) return;
  std::byte* const slice =
      receive.memory.data() + kMargin + receive.shift + static_cast<std::size_t>(place(call)) * shard_bytes;
  check(cudaMemcpyAsync(slice, shard, shard_bytes, cudaMemcpyHostToDevice, stream));
}

void Rank::issue(const Call& call, int stream) {
  const cudaStream_t on = streams_[static_cast<std::size_t>(stream)];
  for (int i = 0; i < call.nested; ++i) check(ncclGroupStart());
  if (call.function == Function::reduce_scatter) {
    issue_gradient(call, on);
  } else {
    issue_gather(call, on);
  }
  for (int i = 0; i < call.nested; ++i) check(ncclGroupEnd());
}

void Rank::issue_gradient(const Call& call, cudaStream_t stream) {
  const ncclComm_t comm = comms_.at(call.comm);
  const GradientAreas areas = Plan::areas(call, rank_, place(call), communicator(call).ranks());
  std::byte* const memory = gradient_memory(call).data();
  const bool scaled = call.reduction == Reduction::scaled;
  ncclRedOp_t op = call.reduction == Reduction::avg   ? ncclAvg
                   : call.reduction == Reduction::max ? ncclMax
                                                      : ncclSum;
  if (scaled) {
    std::array<std::byte, kFactorBytes> on_host{};
    store(call.type, on_host.data(), call.factor);
    void* const scalar = call.factor_on_device ? factors_ + factor_offset(call) : on_host.data();
    check(ncclRedOpCreatePreMulSum(&op, scalar, call.type,
                                   call.factor_on_device ? ncclScalarDevice : ncclScalarHostImmediate, comm));
  }
  check(ncclReduceScatter(memory + areas.send, memory + areas.receive, call.count, call.type, op, comm,
                          stream));
  if (scaled) check(ncclRedOpDestroy(op, comm));  // before the group ends, as frameworks do
}

void Rank::issue_gather(const Call& call, cudaStream_t stream) {
  const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
  const Buffer& receive = receive_buffer(call.buffer);
  const Buffer& send = send_buffer(call.buffer);
  std::byte* const all = receive.memory.data() + kMargin + receive.shift;
  const std::byte* const slice =
      all + static_cast<std::size_t>(place(call)) * weight.count * bytes_of(weight.type);
  const std::byte* const shard =
      has(call.in_place, rank_) ? slice : send.memory.data() + kMargin + send.shift;
  check(ncclAllGather(shard, all, weight.count, weight.type, comms_.at(weight.comm), stream));
}

void Rank::finish(const Call& call, int stream) {
  const cudaStream_t on = streams_[static_cast<std::size_t>(stream)];
  const Pending& pending = pending_.at(&call);
  const auto leave = [&](Memory& memory, std::size_t bytes, std::byte* to) {
    check(cudaMemcpyAsync(to, memory.data(), bytes, cudaMemcpyDeviceToHost, on));
    if (has(call.overwrite, rank_)) check(cudaMemsetAsync(memory.data(), 0x7f, bytes, on));
    memory.end_use(on);
  };
  if (call.function == Function::reduce_scatter) {
    leave(gradient_memory(call), pending.capacity, pending.snapshot);
    return;
  }
  Buffer& receive = receive_buffer(call.buffer);
  Buffer& send = send_buffer(call.buffer);
  check(cudaMemcpyAsync(pending.snapshot, receive.memory.data(), receive.memory.bytes(),
                        cudaMemcpyDeviceToHost, on));
  if (has(call.overwrite, rank_)) {
    const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
    const std::size_t bytes =
        weight.count * bytes_of(weight.type) * static_cast<std::size_t>(communicator(call).ranks());
    check(cudaMemsetAsync(receive.memory.data() + kMargin + receive.shift, 0x7f, bytes, on));
  }
  receive.memory.end_use(on);
  leave(send.memory, send.memory.bytes(), pending.snapshot + receive.memory.bytes());
}

void Rank::allocate(const Step& step) {
  for (const Call& call : step.calls) {
    if (!takes_part(call)) continue;
    if (call.function == Function::reduce_scatter) {
      (void)gradient_memory(call);
    } else {
      (void)receive_buffer(call.buffer);
      (void)send_buffer(call.buffer);
    }
  }
}

void Rank::begin_capture(const Step& step, bool alone) const {
  // In global mode another rank's thread could not allocate meanwhile.
  check(cudaStreamBeginCapture(streams_[static_cast<std::size_t>(step.stream)],
                               alone ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeThreadLocal));
}

void Rank::end_capture(const Step& step) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(streams_[static_cast<std::size_t>(step.stream)], &graph));
  Graph& kept = graphs_[step.target];
  check(cudaGraphInstantiate(&kept.executable, graph, 0));
  for (const Call& call : step.calls) kept.comms.insert(comm_of(program_, call));
  check(cudaGraphDestroy(graph));
}

void Rank::replay(const Step& step) {
  check(cudaGraphLaunch(graphs_.at(step.target).executable, streams_[static_cast<std::size_t>(step.stream)]));
}

void Rank::change(const Step& step) {
  if (step.action == Action::release) {
    if (has(step.ranks, rank_)) gradients_.erase(step.target);
    return;
  }
  const Weight& weight = program_.weights[static_cast<std::size_t>(step.target)];
  if (!has(step.ranks, rank_) || !comms_.contains(weight.comm)) return;
  Buffer& receive = receive_buffer(step.target);
  switch (step.action) {
    case Action::reload:
      return master(step.target).reload(step);
    case Action::scribble: {
      const int index = plan_.communicator_of(weight.comm, rank_);
      const std::size_t ranks =
          static_cast<std::size_t>(plan_.communicators[static_cast<std::size_t>(index)].ranks());
      const cudaStream_t stream = streams_[step.key % kStreams];
      receive.memory.begin_use(stream);
      check(cudaMemsetAsync(receive.memory.data() + kMargin + receive.shift,
                            step.key % 3 == 0 ? 0xff : static_cast<int>(mix(step.key, 3) & 0xff),
                            weight.count * ranks * bytes_of(weight.type), stream));
      return receive.memory.end_use(stream);
    }
    case Action::move: {
      Buffer fresh;
      if (mix(step.key, static_cast<std::uint64_t>(rank_)) % 2) {
        fresh = new_buffer(receive.memory.bytes(), weight, ++generation_);
      } else {  // likely at an address that was used before
        const std::size_t bytes = receive.memory.bytes();
        receive.memory.release();
        fresh = new_buffer(bytes, weight, ++generation_);
      }
      receive.memory.release();
      receive = std::move(fresh);
      return;
    }
    default: {
      const Weight& other_weight = program_.weights.at(static_cast<std::size_t>(step.from));
      if (!comms_.contains(other_weight.comm)) return;
      Buffer& other = receive_buffer(step.from);
      if (other_weight.count != weight.count || other_weight.type != weight.type ||
          other_weight.comm != weight.comm)
        return;
      std::swap(other, receive);
    }
  }
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

void Rank::examine() const {
  for (const Execution& execution : plan_.executions) {
    const int own = place_of(plan_.communicators[execution.communicator], rank_);
    if (own >= 0) examine(execution, static_cast<std::size_t>(own));
  }
}

void Rank::examine(const Execution& execution, std::size_t own) const {
  const Call& call = *execution.call;
  const auto ranks = static_cast<std::size_t>(plan_.communicators[execution.communicator].ranks());
  std::byte* const at = trace_.records() + execution.record[own];
  Record& record = *reinterpret_cast<Record*>(at);
  const std::size_t capacity = plan_.capacity(call, rank_, static_cast<int>(own), static_cast<int>(ranks));
  const std::byte* const snapshot = at + sizeof(Record);
  const std::byte* const image = snapshot + capacity;
  std::size_t output_bytes = call.count * bytes_of(call.type);
  if (call.function == Function::all_gather) {
    const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
    output_bytes = weight.count * bytes_of(weight.type) * ranks;
  }
  const std::size_t begin = record.output_offset, end = begin + output_bytes;
  for (std::size_t i = 0; i < capacity && record.touched == 0; ++i) {
    if (i == begin) i = end;
    if (i < capacity && snapshot[i] != image[i]) record.touched = i + 1;
  }
}

}  // namespace sdp4bit::model

// How a rank makes its calls, and what it leaves of them; see rank.h.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "rank.h"
#include "sandbox/cudart/extension.h"

namespace sdp4bit::model {
namespace {

/// An operator of the program's for one call, destroyed before its group ends, as frameworks do.
class Operator {
 public:
  Operator(const Call& call, std::byte* on_device, ncclComm_t comm) : comm_(comm) {
    op_ = call.reduction == Reduction::avg ? ncclAvg : call.reduction == Reduction::max ? ncclMax : ncclSum;
    created_ = call.reduction == Reduction::scaled &&
               (call.function == Function::reduce_scatter || call.function == Function::all_reduce);
    if (!created_) return;
    std::array<std::byte, 8> on_host{};
    store(call.type, on_host.data(), call.factor);
    check(ncclRedOpCreatePreMulSum(&op_, call.factor_on_device ? on_device : on_host.data(), call.type,
                                   call.factor_on_device ? ncclScalarDevice : ncclScalarHostImmediate, comm));
  }
  ~Operator() {
    if (created_) (void)ncclRedOpDestroy(op_, comm_);
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  [[nodiscard]] ncclRedOp_t get() const { return op_; }

 private:
  ncclComm_t comm_;
  ncclRedOp_t op_ = ncclSum;
  bool created_ = false;
};

}  // namespace

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
  if (call.function == Function::all_gather) {
    prepare_gather(call, on);
  } else {
    prepare_call(call, repeat, on);
  }
}

void Rank::prepare_call(const Call& call, std::uint64_t repeat, cudaStream_t stream) {
  const Pending& pending = pending_.at(&call);
  const int ranks = communicator(call).ranks();
  const CallAreas areas = Plan::areas(call, rank_, place(call), ranks);
  Memory& memory = call_memory(call);
  store_all(call.type, pending.image + areas.send,
            input_of(call, repeat, place(call), input_count(call, ranks)));
  *pending.record = {.receive_address = reinterpret_cast<std::uint64_t>(memory.data() + areas.receive),
                     .output_offset = areas.receive,
                     .shard_offset = 0,
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
  std::byte* const slice = own_slice(call.buffer);
  *pending.record = {
      .receive_address = reinterpret_cast<std::uint64_t>(receive.memory.data() + kMargin + receive.shift),
      .output_offset = kMargin + receive.shift,
      .shard_offset = static_cast<std::uint64_t>(shard - pending.image),
      .touched = 0};
  receive.memory.begin_use(stream);
  send.memory.begin_use(stream);
  if (has(weight.kept, rank_) && fresh_.erase(call.buffer) == 0) {
    // As an optimizer does that has no other copy: what is there moves on.
    check(cudaMemcpyAsync(shard, slice, shard_bytes, cudaMemcpyDeviceToHost, stream));
    updates_.push_back({&own, &weight, &call, shard});
    check(cudaLaunchHostFunc(stream, Update::run, &updates_.back()));
  } else {
    store_all(weight.type, shard, own.shard(weight, call));
  }
  check(cudaMemcpyAsync(send.memory.data(), image, send.memory.bytes(), cudaMemcpyHostToDevice, stream));
  if (is_in_place(call)) check(cudaMemcpyAsync(slice, shard, shard_bytes, cudaMemcpyHostToDevice, stream));
}

void Rank::Update::run(void* update) {
  const Update& self = *static_cast<const Update*>(update);
  const Values shard = load_all(self.weight->type, self.shard, self.weight->count);
  store_all(self.weight->type, self.shard, self.master->moved_on(*self.weight, *self.call, shard));
}

bool Rank::is_in_place(const Call& call) const {
  return is_in_place_on(program_, call, rank_);
}

void Rank::issue(const Call& call, int stream) {
  const cudaStream_t on = streams_[static_cast<std::size_t>(stream)];
  for (int i = 0; i < call.nested; ++i) check(ncclGroupStart());
  if (call.function == Function::all_gather) {
    issue_gather(call, on);
  } else {
    issue_call(call, on);
  }
  for (int i = 0; i < call.nested; ++i) check(ncclGroupEnd());
}

void Rank::issue_call(const Call& call, cudaStream_t stream) {
  const ncclComm_t comm = comms_.at(call.comm);
  const int ranks = communicator(call).ranks(), own = place(call);
  const CallAreas areas = Plan::areas(call, rank_, own, ranks);
  std::byte* const memory = call_memory(call).data();
  std::byte* const send = memory + areas.send;
  std::byte* const receive = memory + areas.receive;
  const Operator op(call, factor_of(call), comm);
  switch (call.function) {
    case Function::all_reduce:
      return check(ncclAllReduce(send, receive, call.count, call.type, op.get(), comm, stream));
    case Function::broadcast:
      return check(ncclBroadcast(send, receive, call.count, call.type, root_of(call, ranks), comm, stream));
    case Function::send_recv:
      check(ncclGroupStart());
      check(ncclSend(send, call.count, call.type, (own + 1) % ranks, comm, stream));
      check(ncclRecv(receive, call.count, call.type, (own + ranks - 1) % ranks, comm, stream));
      return check(ncclGroupEnd());
    default: {
      const ncclResult_t result =
          ncclReduceScatter(send, receive, call.count, call.type, op.get(), comm, stream);
      if (result == ncclInProgress) settle();  // the operator goes
      return check(result);
    }
  }
}

void Rank::issue_gather(const Call& call, cudaStream_t stream) {
  const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
  const Buffer& receive = receive_buffer(call.buffer);
  const Buffer& send = send_buffer(call.buffer);
  std::byte* const all = receive.memory.data() + kMargin + receive.shift;
  const std::byte* const shard =
      is_in_place(call) ? own_slice(call.buffer) : send.memory.data() + kMargin + send.shift;
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
  if (call.function != Function::all_gather) {
    leave(call_memory(call), pending.capacity, pending.snapshot);
    return;
  }
  Buffer& receive = receive_buffer(call.buffer);
  Buffer& send = send_buffer(call.buffer);
  check(cudaMemcpyAsync(pending.snapshot, receive.memory.data(), receive.memory.bytes(),
                        cudaMemcpyDeviceToHost, on));
  if (has(call.overwrite, rank_)) fill_received(call.buffer, 0x7f, on);
  receive.memory.end_use(on);
  leave(send.memory, send.memory.bytes(), pending.snapshot + receive.memory.bytes());
}

void Rank::allocate(const Step& step) {
  for (const Call& call : step.calls) {
    if (!takes_part(call)) continue;
    if (call.function == Function::all_gather) {
      (void)receive_buffer(call.buffer);
      (void)send_buffer(call.buffer);
    } else {
      (void)call_memory(call);
    }
  }
}

void Rank::allocate_for(const Call& call) {
  (void)call_memory(call);
}

bool Rank::try_to_issue(const Call& call) {
  const CallAreas areas = Plan::areas(call, rank_, place(call), communicator(call).ranks());
  std::byte* const memory = call_memory(call).data();
  const ncclResult_t result =
      ncclReduceScatter(memory + areas.send, memory + areas.receive, call.count, call.type, ncclSum,
                        comms_.at(call.comm), streams_[static_cast<std::size_t>(stream_of(call))]);
  if (result != ncclInvalidUsage) check(result);
  return result != ncclInvalidUsage;
}

void Rank::starve(bool starving) const {
  sandboxFailAllocation(device_, starving ? 1 : 0);
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

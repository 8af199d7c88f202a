// A rank's buffers, and what happens to them between calls; see rank.h.
#include <algorithm>
#include <utility>

#include "rank.h"

namespace sdp4bit::model {

Memory& Rank::call_memory(const Call& call) {
  Memory& memory = memories_[call.buffer];
  if (memory) return memory;
  std::size_t bytes = 0;
  // Of all steps: what is only simulated, and a graph that is never replayed, have no execution.
  for (const Step& step : program_.steps) {
    for (const Call& other : step.calls) {
      if (other.function == Function::all_gather || other.buffer != call.buffer) continue;
      const int index = plan_.communicator_of(comm_of(program_, other), rank_);
      if (index < 0) continue;
      const Communicator& of_other = plan_.communicators[static_cast<std::size_t>(index)];
      bytes = std::max(bytes, Plan::areas(other, rank_, place_of(of_other, rank_), of_other.ranks()).bytes);
    }
  }
  memory = Memory(bytes);
  return memory;
}

Rank::Buffer Rank::new_buffer(std::size_t bytes, const Weight& weight, std::uint64_t key) const {
  return {Memory(bytes), shift_of(mix(key, static_cast<std::uint64_t>(rank_)), bytes_of(weight.type),
                                  weight.misaligned, weight.odd)};
}

Rank::Buffer& Rank::receive_buffer(int weight) {
  Buffer& buffer = receives_[weight];
  if (buffer.memory) return buffer;
  const Weight& what = program_.weights[static_cast<std::size_t>(weight)];
  const Communicator& of_weight =
      plan_.communicators[static_cast<std::size_t>(plan_.communicator_of(what.comm, rank_))];
  fresh_.insert(weight);
  return buffer = new_buffer(plan_.receive_bytes(what, of_weight.ranks()), what, ++generation_);
}

std::byte* Rank::own_slice(int weight) {
  const Buffer& receive = receive_buffer(weight);
  const Weight& what = program_.weights[static_cast<std::size_t>(weight)];
  const Communicator& of_weight =
      plan_.communicators[static_cast<std::size_t>(plan_.communicator_of(what.comm, rank_))];
  return receive.memory.data() + kMargin + receive.shift +
         static_cast<std::size_t>(place_of(of_weight, rank_)) * what.count * bytes_of(what.type);
}

void Rank::fill_received(int weight, int byte, cudaStream_t stream) {
  const Weight& what = program_.weights[static_cast<std::size_t>(weight)];
  const Buffer& receive = receive_buffer(weight);
  const int index = plan_.communicator_of(what.comm, rank_);
  const auto ranks = static_cast<std::size_t>(plan_.communicators[static_cast<std::size_t>(index)].ranks());
  const std::size_t shard_bytes = what.count * bytes_of(what.type);
  std::byte* const begin = receive.memory.data() + kMargin + receive.shift;
  std::byte* const end = begin + ranks * shard_bytes;
  if (!has(what.kept, rank_)) {
    check(cudaMemsetAsync(begin, byte, ranks * shard_bytes, stream));
    return;
  }
  std::byte* const own = own_slice(weight);
  check(cudaMemsetAsync(begin, byte, static_cast<std::size_t>(own - begin), stream));
  check(cudaMemsetAsync(own + shard_bytes, byte, static_cast<std::size_t>(end - own) - shard_bytes, stream));
}

std::vector<std::byte> Rank::read_own_slice(int weight) {
  const Weight& what = program_.weights[static_cast<std::size_t>(weight)];
  if (!has(what.kept, rank_)) return {};
  std::vector<std::byte> slice(what.count * bytes_of(what.type));
  std::byte* const own = own_slice(weight);
  receive_buffer(weight).memory.begin_use(streams_[0]);
  check(cudaMemcpyAsync(slice.data(), own, slice.size(), cudaMemcpyDeviceToHost, streams_[0]));
  check(cudaStreamSynchronize(streams_[0]));
  return slice;
}

void Rank::write_own_slice(int weight, const std::vector<std::byte>& slice) {
  if (slice.empty()) return;
  std::byte* const own = own_slice(weight);
  Memory& memory = receive_buffer(weight).memory;
  memory.begin_use(streams_[0]);
  check(cudaMemcpyAsync(own, slice.data(), slice.size(), cudaMemcpyHostToDevice, streams_[0]));
  memory.end_use(streams_[0]);
  check(cudaStreamSynchronize(streams_[0]));
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

void Rank::change(const Step& step) {
  if (step.action == Action::release) {
    if (has(step.ranks, rank_)) memories_.erase(step.target);
    return;
  }
  const Weight& weight = program_.weights[static_cast<std::size_t>(step.target)];
  if (!has(step.ranks, rank_) || !comms_.contains(weight.comm)) return;
  switch (step.action) {
    case Action::reload:
      fresh_.insert(step.target);
      return master(step.target).reload(step);
    case Action::scribble: {
      Memory& memory = receive_buffer(step.target).memory;
      const cudaStream_t stream = streams_[step.key % kStreams];
      memory.begin_use(stream);
      fill_received(step.target, step.key % 3 == 0 ? 0xff : static_cast<int>(mix(step.key, 3) & 0xff),
                    stream);
      return memory.end_use(stream);
    }
    case Action::move:
      return move(step, weight);
    default:
      return exchange(step, weight);
  }
}

/// The only copy of a shard goes along.
void Rank::move(const Step& step, const Weight& weight) {
  const std::vector<std::byte> slice = read_own_slice(step.target);
  Buffer& receive = receive_buffer(step.target);
  const std::size_t bytes = receive.memory.bytes();
  Buffer fresh;
  if (mix(step.key, static_cast<std::uint64_t>(rank_)) % 2) {
    fresh = new_buffer(bytes, weight, ++generation_);
  } else {  // likely at an address that was used before
    receive.memory.release();
    fresh = new_buffer(bytes, weight, ++generation_);
  }
  receive.memory.release();
  receive = std::move(fresh);
  write_own_slice(step.target, slice);
}

void Rank::exchange(const Step& step, const Weight& weight) {
  const Weight& other = program_.weights.at(static_cast<std::size_t>(step.from));
  if (!comms_.contains(other.comm) || other.count != weight.count || other.type != weight.type ||
      other.comm != weight.comm || step.from == step.target)
    return;
  const std::vector<std::byte> slice = read_own_slice(step.target), others = read_own_slice(step.from);
  std::swap(receive_buffer(step.from), receive_buffer(step.target));
  write_own_slice(step.target, slice);
  write_own_slice(step.from, others);
}

}  // namespace sdp4bit::model

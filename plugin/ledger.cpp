// Memory of a weight class; see ledger.h.
#include "plugin/ledger.h"

#include <algorithm>

namespace sdp4bit {

std::uint64_t Ledger::needed_bytes(std::uint32_t slots) const {
  return std::uint64_t{shape_.place_count} * slots * entry_bytes(shape_.count, shape_.type) +
         (shape_.probes ? sizeof(Probe) : 0);
}

bool Ledger::allocate(std::uint32_t slots, std::uint64_t bytes_left) {
  const std::uint64_t bytes = needed_bytes(slots);
  const std::uint64_t of_probe = shape_.probes ? sizeof(Probe) : 0;
  if (entries_.bytes() != bytes - of_probe) {
    entries_.reset();
    if (bytes <= bytes_left) entries_ = DeviceBuffer::try_allocate(bytes - of_probe);
  }
  if (entries_ && shape_.probes && !probe_) probe_ = DeviceBuffer::try_allocate(sizeof(Probe));
  needs_zeroing_ = entries_ && (!shape_.probes || probe_);
  standing_.asked(slots, needs_zeroing_);
  return needs_zeroing_;
}

void Ledger::restart() {
  table_.clear();
  for (Kept& sample : samples_) sample.known = false;
  standing_.restart();
}

void Ledger::release() {
  restart();
  samples_.clear();
  entries_.reset();
}

std::byte* Ledger::own_entry(std::uint32_t slot) const {
  const std::size_t number = std::size_t{shape_.own_place} * standing_.slots() + slot;
  return entries_.data() + number * entry_bytes(shape_.count, shape_.type);
}

Probe* Ledger::probe() const {
  return probe_ ? probe_.as<Probe>() : nullptr;
}

SlotTable::Found Ledger::find_slot(const void* receive) {
  return table_.find(receive, standing_.slot_limit(SlotTable::kMost));
}

Ledger::Sample Ledger::take_sample(std::uint32_t slot, bool seen) {
  auto kept = std::find_if(samples_.begin(), samples_.end(), [&](const Kept& k) { return k.slot == slot; });
  if (kept == samples_.end()) {
    if (samples_.size() < kMostSamples) {
      DeviceBuffer memory =
          DeviceBuffer::try_allocate(sample_bytes(shape_.count, shape_.group_size, shape_.type));
      if (!memory) return {};  // says "not small": the class then stays native
      kept = samples_.insert(samples_.end(), Kept{.memory = std::move(memory)});
    } else {
      kept = std::min_element(samples_.begin(), samples_.end(),
                              [](const Kept& a, const Kept& b) { return a.last_use < b.last_use; });
    }
    kept->known = false;
  }
  const bool known = kept->known && seen;
  kept->slot = slot;
  kept->last_use = ++uses_;
  kept->known = true;
  return {kept->memory.data(), known};
}

std::uint64_t Ledger::samples_bytes() const {
  std::uint64_t bytes = 0;
  for (const Kept& sample : samples_) bytes += sample.memory.bytes();
  return bytes;
}

void Ledger::prepare(cudaStream_t stream) {
  if (!needs_zeroing_) return;
  check(cudaMemsetAsync(entries_.data(), 0, entries_.bytes(), stream));
  if (probe_) check(cudaMemsetAsync(probe_.data(), 0, probe_.bytes(), stream));
  needs_zeroing_ = false;
}

}  // namespace sdp4bit

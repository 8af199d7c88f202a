// One class's memory on one rank: its slots, the samples of learning, and the ledger of the agreed slots.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/launch_probe.h"
#include "kernels/launch_weight.h"
#include "plugin/cuda_raii.h"
#include "plugin/first_number.h"
#include "plugin/ledger_standing.h"
#include "plugin/slot_table.h"

namespace sdp4bit {

/// What the ledger of a class is made of; equal on all ranks.
struct LedgerShape {
  std::size_t count = 0;
  ElementType type = ElementType::bfloat16;
  std::uint32_t place_count = 0;  // held senders
  std::uint32_t own_place = 0;
  std::size_t group_size = 2048;
  bool probes = false;  // a Probe beside the entries
};

class Ledger {
 public:
  static constexpr std::uint32_t kMostSamples = 64;

  explicit Ledger(const LedgerShape& shape) : shape_(shape) {}

  /// S was agreed. `bytes_left`: what the bound of all ledgers leaves. False: refused, on this rank.
  bool allocate(std::uint32_t slots, std::uint64_t bytes_left);
  /// Back to learning: slots are counted anew. The memory stays, for the next S may be the same.
  void restart();
  /// Native for good.
  void release();

  [[nodiscard]] const LedgerStanding& standing() const { return standing_; }
  [[nodiscard]] std::uint64_t bytes() const { return entries_.bytes() + probe_.bytes(); }
  [[nodiscard]] std::uint64_t samples_bytes() const;
  [[nodiscard]] std::uint64_t needed_bytes(std::uint32_t slots) const;
  [[nodiscard]] std::byte* entries() const { return entries_.data(); }
  [[nodiscard]] std::byte* own_entry(std::uint32_t slot) const;
  /// nullptr where there never was one: it outlives restart() and release(), for a step may be in some
  /// buffer.
  [[nodiscard]] Probe* probe() const;

  /// The sender's slot for a receive address: below S once S is agreed.
  SlotTable::Found find_slot(const void* receive);
  [[nodiscard]] std::uint32_t slot_count() const { return table_.count(); }

  /// The sample of a slot, and whether it holds the slot's last values; data is nullptr where there is no
  /// memory.
  struct Sample {
    std::byte* data = nullptr;
    bool known = false;
  };
  Sample take_sample(std::uint32_t slot, bool seen);

  /// Zeroes new entries, once, in class call order: entries start as zeros everywhere.
  void prepare(cudaStream_t stream);

 private:
  struct Kept {
    DeviceBuffer memory;
    std::uint32_t slot = 0;
    std::uint64_t last_use = 0;
    bool known = false;
  };

  LedgerShape shape_;
  SlotTable table_{first_number()};
  std::vector<Kept> samples_;
  std::uint64_t uses_ = 0;
  DeviceBuffer entries_;
  DeviceBuffer probe_;
  LedgerStanding standing_;
  bool needs_zeroing_ = false;
};

}  // namespace sdp4bit

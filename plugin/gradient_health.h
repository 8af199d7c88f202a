// Whether gradients still look like gradients, as all ranks agree: every 64th ReduceScatter of a class (count
// and type) is looked at, and a class that looks like garbage three times in a row goes native for a while.
//
// Frameworks pad gradients, some with memory that was never written. Natively that garbage stays where it
// is; under a shared scale it ruins its neighbours.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/launch_health.h"
#include "plugin/cuda_raii.h"
#include "plugin/health_schedule.h"
#include "plugin/phased_call.h"

namespace sdp4bit {

class CommState;

/// The health of one communicator's gradients. Memory is allocated with the handshake's.
class GradientHealth {
 public:
  static constexpr std::size_t kMostClasses = 64;  // later ones are not looked at

  GradientHealth();
  ~GradientHealth();
  GradientHealth(const GradientHealth&) = delete;
  GradientHealth& operator=(const GradientHealth&) = delete;

  /// False where memory cannot be had. Its device memory must be zeroed before the first call.
  [[nodiscard]] bool allocate(std::uint32_t ranks);
  void release();
  [[nodiscard]] const DeviceBuffer& memory() const { return device_; }

  /// Whether the class is native in the outermost group `epoch`: reads an answer that is due. Rank-invariant.
  [[nodiscard]] bool is_native(CommState& comm, std::size_t count, ncclDataType_t type, std::uint64_t epoch);
  /// Numbers a call that is launched, in call order. Where its scales are to be counted; nullptr if it is not
  /// looked at, as no native call is.
  [[nodiscard]] ScaleHistogram* number_call(std::size_t count, ncclDataType_t type, std::uint64_t epoch);
  /// Before the calls of a group are launched: exchanges what looks of earlier groups saw. nullptr if there
  /// is nothing.
  [[nodiscard]] PhasedCall* start_records(CommState& comm, cudaStream_t stream, std::uint64_t epoch);

 private:
  struct Class {
    std::size_t count;
    ncclDataType_t type;
    HealthSchedule schedule;
    std::uint64_t calls;      // the next one's number, of compressed and paused ones
    std::uint64_t epoch = 0;  // the group that `native` holds for
    bool native = false;
    std::uint64_t look_epoch = 0;    // the group of the last look
    std::uint64_t record_epoch = 0;  // the group of the exchange that followed; 0: not yet
    std::uint64_t records;           // the last exchange's number, which the words carry
  };
  class Records;

  [[nodiscard]] Class* find(std::size_t count, ncclDataType_t type);
  [[nodiscard]] std::size_t place(const Class& of) const {
    return static_cast<std::size_t>(&of - classes_.data());
  }
  [[nodiscard]] ScaleHistogram* histogram(std::size_t place) const;
  [[nodiscard]] std::byte* own_record(std::size_t place) const;
  [[nodiscard]] std::byte* all_records(std::size_t place) const;
  [[nodiscard]] HealthWords* words(std::size_t place) const { return words_.as<HealthWords>() + place; }

  std::vector<Class> classes_;
  std::size_t last_ = 0;  // the place of the class that was asked for last
  DeviceBuffer device_;   // histograms, own records, all ranks' records: each class by class
  PinnedBuffer words_;    // class by class
  std::unique_ptr<Records> call_;
  std::uint32_t ranks_ = 0;
};

}  // namespace sdp4bit

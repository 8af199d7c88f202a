// Checksums of what travels on one communicator (SDP4BIT_CHECKSUM=1): seals before an exchange, and verifies
// behind it.
//
// Where the option is off nothing here allocates or launches anything.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/launch_checksum.h"
#include "plugin/checksum_failure.h"
#include "plugin/cuda_raii.h"
#include "plugin/first_number.h"

namespace sdp4bit {

class CommState;

/// The call that messages belong to.
struct ChecksumCall {
  std::uint64_t use = 0;                   // Checksums::next_use()
  std::uint64_t number = 0;                // as a failure names it ...
  const std::uint64_t* counter = nullptr;  // ... counted from here, on the device
  std::uint32_t class_number = 0;
};

/// Messages that an exchange brought.
struct Arrived {
  Exchange exchange = Exchange::none;
  ChecksummedParts parts;
  std::uint32_t chunk = 0;
  std::uint32_t headers_per_part = 1;  // the next three: see VerifyChecksumsArgs
  std::uint32_t flags = 0;
  Exchange passed_on = Exchange::none;
};

class Checksums {
 public:
  /// False where memory cannot be had. memory() must be zeroed before the first call.
  [[nodiscard]] bool allocate(std::uint32_t ranks);
  void release() { memory_.reset(); }
  [[nodiscard]] const DeviceBuffer& memory() const { return memory_; }
  /// Whether messages carry checksums.
  [[nodiscard]] bool on() const { return static_cast<bool>(memory_); }

  /// For each call that is made.
  [[nodiscard]] std::uint64_t next_use() { return ++uses_; }
  /// Enqueue; where checksums are on. `comm`: whose they are.
  void seal(const ChecksummedParts& parts, cudaStream_t stream) const;
  void verify(const CommState& comm, const Arrived& arrived, const ChecksumCall& call,
              cudaStream_t stream) const;

 private:
  DeviceBuffer memory_;  // ChecksumState, counts of both functions, then a ChecksumSum for each rank
  std::uint64_t uses_ = first_number();
};

}  // namespace sdp4bit

// The 32-point Walsh-Hadamard transform in Sylvester order, unnormalized, as butterflies on values in
// registers.
#pragma once

#include "kernels/host_device.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

/// Strides 1, 2, 4, 8, 16, in this order: it decides the rounding of the sums.
SDP4BIT_HOST_DEVICE void hadamard32(float (&value)[kBlock]) {
  SDP4BIT_UNROLL
  for (unsigned stride = 1; stride < kBlock; stride *= 2) {
    SDP4BIT_UNROLL
    for (unsigned pair = 0; pair < kBlock / 2; ++pair) {
      const unsigned low = pair / stride * 2 * stride + pair % stride;
      const float a = value[low];
      const float b = value[low + stride];
      value[low] = a + b;
      value[low + stride] = a - b;
    }
  }
}

/// The transform undoes itself but for a factor of 32; dividing by it is exact, and so is putting the
/// division into another factor.
inline constexpr float kInverseHadamardFactor = 1.0f / kBlock;

SDP4BIT_HOST_DEVICE void inverse_hadamard32(float (&value)[kBlock]) {
  hadamard32(value);
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) value[i] *= kInverseHadamardFactor;
}

}  // namespace sdp4bit

// The codecs that kernels of gradients know when they are compiled, so that nothing about them is asked at
// run time.
//
// Each multiplies the kernels that are compiled, so only the default is known. All others share kernels that
// read the codec from their arguments; the bits are the same.
#pragma once

#include "kernels/host_device.h"
#include "kernels/index.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

inline constexpr Codec kKnownBetweenNodes{
    .bits = 4, .group_size = 64, .scale = ScaleType::bfloat16, .coding = Coding::dithered};
inline constexpr Codec kKnownInNode{
    .bits = 8, .group_size = 64, .scale = ScaleType::bfloat16, .coding = Coding::stochastic};

/// What a kernel is told of the codec of width `Bits`: nothing, or that it is the known one.
template <unsigned Bits, bool Known>
struct CodecHint {
  static_assert(Bits == kKnownBetweenNodes.bits || Bits == kKnownInNode.bits);
  static constexpr Codec kCodec = Bits == kKnownBetweenNodes.bits ? kKnownBetweenNodes : kKnownInNode;
  /// Codes times scale are exact in fp32.
  static constexpr bool kExactProducts = Known && kCodec.scale == ScaleType::bfloat16;

  /// The layout, in which what is known is constant.
  SDP4BIT_HOST_DEVICE static SegmentLayout layout(SegmentLayout given) {
    given.bits = Bits;
    if constexpr (Known) {
      given.coding = kCodec.coding;
      given.scale = kCodec.scale;
      given.group_shift = log2_of_power(kCodec.group_size);
    }
    return given;
  }
  SDP4BIT_HOST_DEVICE static bool hadamard(bool given) { return Known ? kCodec.hadamard : given; }
};

constexpr bool is_known(const Codec& codec) {
  return codec == kKnownBetweenNodes || codec == kKnownInNode;
}

/// Calls launch.operator()<true>() where the kernels know the codecs, else <false>().
template <typename Launch>
auto with_hint(bool known, Launch&& launch) {
  return known ? launch.template operator()<true>() : launch.template operator()<false>();
}

}  // namespace sdp4bit

// What the kernels of differences are given of each call of a launch.
#pragma once

#include "kernels/batch.h"
#include "kernels/index.h"
#include "kernels/launch_weight.h"

namespace sdp4bit {

struct EncodeCall {
  EncodeDifferenceArgs args;
  SealDifferenceArgs seal;
  SegmentLayout layout;
};
struct AddCall {
  AddDifferenceArgs args;
  PublishArgs publish;
  SegmentLayout layout;
};
struct ScatterCall {
  ScatterShardsArgs args;
  PublishArgs publish;
};

}  // namespace sdp4bit

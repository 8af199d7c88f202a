// The operations of launch.h as plain loops on host memory: the definition of what every kernel writes, bit
// for bit.
//
// They take the same arguments with host pointers and write the same bytes.
#pragma once

#include "kernels/launch.h"

namespace sdp4bit::reference {

void quantize(const QuantizeArgs& args);
void reduce_requantize(const ReduceRequantizeArgs& args);
void reduce_finish(const ReduceFinishArgs& args);

}  // namespace sdp4bit::reference

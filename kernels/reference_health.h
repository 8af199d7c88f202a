// The kernels of health as plain loops over host memory: the definition of correct. Arguments are those of
// launch_health.h; device pointers are host pointers here.
#pragma once

#include "kernels/launch_health.h"

namespace sdp4bit::reference {

void count_scales(const CountScalesArgs& args);
void write_health(ScaleHistogram* histogram, HealthRecord* record);
void publish_health(const PublishHealthArgs& args);

}  // namespace sdp4bit::reference

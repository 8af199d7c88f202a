// The weight kernels as plain loops over host memory: the definition of correct. Arguments are those of
// launch_weight.h and launch_probe.h; device pointers are host pointers here.
#pragma once

#include "kernels/launch_probe.h"
#include "kernels/launch_weight.h"

namespace sdp4bit::reference {

void encode_difference(const EncodeDifferenceArgs& args);
void measure_difference(const MeasureDifferenceArgs& args);
void seal_difference(const SealDifferenceArgs& args);
void add_difference(const AddDifferenceArgs& args);
void scatter_shards(const ScatterShardsArgs& args);
void publish_words(const PublishArgs& args);
void compare_sample(const CompareSampleArgs& args);
void write_record(const WriteRecordArgs& args);
void set_entries(const SetEntriesArgs& args);
void answer_probe(const ProbeArgs& args);
void apply_probe(const ProbeArgs& args);

}  // namespace sdp4bit::reference

// Prints measurements: nccl-tests' columns with bytes on the wire and errors, or CSV, or one JSON object a
// line.
#pragma once

#include "measure.h"

namespace collectives {

void print_header(const Options& options, int ranks, int nodes);
void print_row(const Measurement& measurement, Format format);

}  // namespace collectives

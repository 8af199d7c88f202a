// The machine's work counters, printed at exit on request.
#pragma once

namespace sandbox::cudart {

/// One line a kernel on stderr.
void print_counters();

}  // namespace sandbox::cudart

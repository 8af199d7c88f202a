// The emulated machine: what a launch executed and moved, and what that allows on GPUs.
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "machine.h"
#include "record.h"
#include "roofline.h"
#include "sandbox/cudart/extension.h"

namespace sdp4bit::bench {

Machine::Machine(const Options& options) : options_(options), name_("emulated") {}

std::size_t Machine::default_count() {
  return std::size_t{256} << 10;
}

std::vector<Figure> Machine::measure(const Case& row, PreparedCase& prepared) {
  Recorder recorder(options_.record, recorded_++);
  recorder.begin(prepared.memory);
  sandboxResetKernelCounters();
  check(prepared.launch(nullptr));
  check(cudaDeviceSynchronize());
  recorder.end(row, prepared);
  std::vector<sandboxKernelCounters> counters(sandboxGetKernelCounters(nullptr, 0));
  sandboxGetKernelCounters(counters.data(), counters.size());
  for (const sandboxKernelCounters& counter : counters) {
    if (counter.launches != 1 || std::strstr(counter.kernel, row.kernel.c_str()) == nullptr) continue;
    const auto elements = static_cast<double>(prepared.elements);
    const auto bytes = static_cast<double>(counter.global_bytes_loaded + counter.global_bytes_stored);
    const auto least = static_cast<double>(prepared.read_bytes + prepared.written_bytes);
    std::vector<Figure> figures{
        {"ptx_per_element", static_cast<double>(counter.lane_instructions) / elements},
        {"bytes_per_element", bytes / elements},
        {"least_bytes_per_element", least / elements},
        {"sectors_per_request",
         static_cast<double>(counter.global_sectors) / static_cast<double>(counter.global_requests)}};
    for (const Gpu& gpu : kGpus) {
      figures.emplace_back(std::string("budget_") + gpu.name, instructions_per_byte(gpu) * least / elements);
    }
    return figures;
  }
  throw std::runtime_error("the case " + row.name + " launched no " + row.kernel);
}

}  // namespace sdp4bit::bench

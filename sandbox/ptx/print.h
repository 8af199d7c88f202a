// printf of kernels: formats one lane's arguments and collects the text of a launch.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "sandbox/ptx/warp.h"

namespace sandbox::ptx {

class Printer {
 public:
  void add(const std::string& text);
  /// Writes what was collected to stdout.
  void flush();

 private:
  std::mutex mutex_;
  std::string text_;
};

/// Copies bytes from a generic address as one lane sees it; faults like a load.
void read_generic(Warp& warp, const Instr* at, std::uint32_t lane, std::uint64_t address, void* to,
                  std::uint32_t bytes);
std::string read_string(Warp& warp, const Instr* at, std::uint32_t lane, std::uint64_t address);
/// The text of vprintf(format, arguments) for one lane; `count` receives the number of arguments.
std::string format_text(Warp& warp, const Instr* at, std::uint32_t lane, std::uint64_t format,
                        std::uint64_t arguments);

}  // namespace sandbox::ptx

// One resident block: its warps, shared memory and barriers, run by one worker at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sandbox/ptx/machine.h"
#include "sandbox/ptx/program.h"
#include "sandbox/ptx/warp.h"

namespace sandbox::ptx {

class Printer;

/// What all blocks of a launch share.
struct LaunchContext {
  Program* program = nullptr;
  const Launch* launch = nullptr;
  std::string kernel_name;  // demangled
  std::uint64_t grid_id = 0;
  std::uint64_t grid_workspace = 0;  // address of a GridWorkspace; 0: not a cooperative launch
  Printer* printer = nullptr;
  bool check = true;
  double deadline = 0;  // seconds of the steady clock; 0: none
  /// The address of a variable on the launch's device.
  std::function<std::uint64_t(const Variable&)> address_of;
};

inline constexpr int kBarriers = 17;  // 16 named ones and the cluster's

struct BarrierState {
  std::vector<std::uint32_t> arrived;  // lanes, by warp
  bool active = false;
  std::uint32_t threads = 0;         // expected; 0: all
  std::uint32_t yes = 0, total = 0;  // of reductions
};

struct FreeMemory {
  std::size_t bytes = 0;
  void operator()(std::uint8_t* memory) const;
};
using MappedMemory = std::unique_ptr<std::uint8_t[], FreeMemory>;
MappedMemory map_memory(std::size_t bytes);

struct BlockRun {
  BlockRun(const LaunchContext& context, unsigned threads);

  /// Begins block number `index` of a launch.
  void start(const LaunchContext& context, std::uint64_t index);
  enum class Status : std::uint8_t { finished, yielded };
  /// Runs until the block has finished or all its warps spin. Throws Fault.
  Status run();
  /// Adds its counters to `total` and clears them.
  void collect(WarpCounters& total);

  /// Loads a function's constants and special registers, once a warp.
  void prepare(Warp& warp, const Code& code);
  /// Checks whether waiting threads can go on now.
  void recheck_barriers();
  void try_release(int barrier);
  std::uint32_t thread_of(const Warp& warp, std::uint32_t lane) const { return warp.index * 32 + lane; }
  [[noreturn]] void report(const Warp& warp, const LaneFault& fault) const;

  const LaunchContext* context = nullptr;
  unsigned threads;
  std::size_t register_bytes = 0;
  std::size_t shared_capacity = 0;
  Dim3 block_index;
  std::vector<Warp> warps;
  BarrierState barriers[kBarriers];
  std::uint32_t active_barriers = 0;  // a bit for each that somebody has reached

 private:
  enum class WarpStatus : std::uint8_t { blocked, yielded, paused };
  WarpStatus run_warp(Warp& warp);
  bool pick(Warp& warp, Fragment& fragment);
  void put_back(Warp& warp, const Instr* ip);
  void load_special(Warp& warp, const SpecialInit& init) const;
  void load_constants(Warp& warp, const Code& code) const;
  [[noreturn]] void report_deadlock() const;
  void check_clock(const Warp& warp) const;

  std::uint64_t specials_of_ = 0;  // the launch whose special registers the warps hold; 0: none
  MappedMemory registers_, shared_, local_;
};

/// "block (1,0,0), thread (33,0,0)", and where the code is.
std::string describe_place(const BlockRun& block, const Warp& warp, std::uint32_t lane, const Instr* at);
const Code* code_containing(const Warp& warp, const Instr* at);

}  // namespace sandbox::ptx

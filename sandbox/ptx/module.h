// What a loaded module is: images, their symbols, kernels, and the memory of variables on each device.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "sandbox/ptx/block.h"
#include "sandbox/ptx/machine.h"
#include "sandbox/ptx/program.h"

namespace sandbox::ptx {

struct Module::Impl : Linker {
  const void* wrapper = nullptr;
  std::vector<std::byte> image;

  /// Reads and parses at the first call. Throws Fault.
  void load();
  const Function* find_function(const Image& from, std::string_view name) override;
  const Variable* find_variable(const Image& from, std::string_view name) override;
  Kernel* kernel(std::string_view name);
  VariableView memory_of(const Variable& variable, int device);
  std::optional<VariableView> variable(std::string_view name, int device);

 private:
  void initialize(const Variable& variable, std::byte* memory, int device);

  std::once_flag loaded_;
  std::recursive_mutex mutex_;
  std::vector<std::unique_ptr<Image>> images_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
  std::map<std::pair<const Variable*, int>, VariableView> memory_;
};

/// A kernel and what is kept between its launches.
class Kernel {
 public:
  Kernel(const Function& function, Module::Impl& module);

  const Function& function;
  Module::Impl& module;
  const std::string name;
  const std::string demangled;
  const KernelAttributes attributes;

  /// Lowers at the first call. Throws Fault.
  Program& program();

  /// Blocks of earlier launches, with their registers and memory.
  std::unique_ptr<BlockRun> take_block(const LaunchContext& context, unsigned threads);
  void give_block(std::unique_ptr<BlockRun> block, int device);
  void count(const WarpCounters& work);

 private:
  std::mutex mutex_;
  std::unique_ptr<Program> program_;
  std::map<std::pair<unsigned, int>, std::vector<std::unique_ptr<BlockRun>>> idle_;
  KernelCounters* counters_;
};

}  // namespace sandbox::ptx

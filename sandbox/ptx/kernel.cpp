// Kernels: names, attributes, argument layout, counters, and blocks kept between launches.
#include <cxxabi.h>

#include <cstdlib>
#include <cstring>

#include "sandbox/ptx/declarations.h"
#include "sandbox/ptx/module.h"

namespace sandbox::ptx {
namespace {

std::mutex g_counters_mutex;
std::map<std::string, KernelCounters>& all_counters() {
  static auto* const counters = new std::map<std::string, KernelCounters>;
  return *counters;
}

std::string demangle(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

bool mentions(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const char next = at + name.size() < text.size() ? text[at + name.size()] : ' ';
    if (!(std::isalnum(static_cast<unsigned char>(next)) || next == '_' || next == '$')) return true;
  }
  return false;
}

/// From the text alone: programs ask for every kernel's attributes at their start.
KernelAttributes attributes_of(const Function& function) {
  KernelAttributes result;
  result.registers = 32;
  result.max_threads_per_block = function.max_threads ? std::min(function.max_threads, 1024) : 1024;
  result.ptx_version = function.image->target;
  const auto add_declared = [&](std::string_view directive, std::size_t& bytes) {
    for (std::size_t at = function.text.find(directive); at != std::string_view::npos;
         at = function.text.find(directive, at + 1)) {
      const std::size_t begin = at + directive.size();
      if (begin >= function.text.size() || function.text[begin] != ' ') continue;
      const std::size_t end = function.text.find(';', begin);
      Lexer lexer(function.text.substr(begin, end - begin));
      if (lexer.peek().kind != Token::Kind::directive) continue;
      for (const auto& variable : parse_variables(lexer, Space::shared, true)) bytes += variable->bytes;
    }
  };
  // Declarations follow a newline and a tab; instructions such as st.shared do not match.
  add_declared("\t.shared", result.static_shared_bytes);
  add_declared("\t.local", result.local_bytes);
  for (const auto& variable : function.image->variables) {
    if (variable->space == Space::shared && mentions(function.text, variable->name))
      result.static_shared_bytes += variable->bytes;
    if (variable->space == Space::constant) result.constant_bytes += variable->bytes;
  }
  return result;
}

}  // namespace

Kernel::Kernel(const Function& its_function, Module::Impl& its_module)
    : function(its_function),
      module(its_module),
      name(function.name),
      demangled(demangle(name)),
      attributes(attributes_of(function)) {
  std::lock_guard lock(g_counters_mutex);
  counters_ = &all_counters()[demangled];
  counters_->kernel = demangled;
}

Program& Kernel::program() {
  std::lock_guard lock(mutex_);
  if (!program_) program_ = std::make_unique<Program>(function, module);
  return *program_;
}

std::unique_ptr<BlockRun> Kernel::take_block(const LaunchContext& context, unsigned threads) {
  {
    std::lock_guard lock(mutex_);
    auto& idle = idle_[{threads, context.launch->device}];
    if (!idle.empty()) {
      auto block = std::move(idle.back());
      idle.pop_back();
      return block;
    }
  }
  return std::make_unique<BlockRun>(context, threads);
}

void Kernel::give_block(std::unique_ptr<BlockRun> block, int device) {
  constexpr std::size_t kKept = 64;
  std::lock_guard lock(mutex_);
  auto& idle = idle_[{block->threads, device}];
  if (idle.size() < kKept) idle.push_back(std::move(block));
}

void Kernel::count(const WarpCounters& work) {
  std::lock_guard lock(g_counters_mutex);
  ++counters_->launches;
  counters_->lane_instructions += work.lane_instructions;
  counters_->global_bytes_loaded += work.global_bytes_loaded;
  counters_->global_bytes_stored += work.global_bytes_stored;
  counters_->global_requests += work.global_requests;
  counters_->global_sectors += work.global_sectors;
}

const std::string& name(const Kernel& kernel) {
  return kernel.name;
}
KernelAttributes attributes(const Kernel& kernel) {
  return kernel.attributes;
}

std::optional<ParameterPlace> parameter_place(const Kernel& kernel, std::size_t index) {
  std::size_t end = 0, k = 0;
  for (const auto& parameter : kernel.function.parameters) {
    const std::size_t offset = (end + parameter->align - 1) / parameter->align * parameter->align;
    if (k++ == index) return ParameterPlace{offset, parameter->bytes};
    end = offset + parameter->bytes;
  }
  return std::nullopt;
}

std::vector<std::byte> pack_arguments(const Kernel& kernel, void* const* args,
                                      std::vector<std::byte> buffer) {
  buffer.clear();
  std::size_t k = 0;
  for (const auto& parameter : kernel.function.parameters) {
    const std::size_t offset = (buffer.size() + parameter->align - 1) / parameter->align * parameter->align;
    buffer.resize(offset + parameter->bytes);
    std::memcpy(buffer.data() + offset, args[k++], parameter->bytes);
  }
  return buffer;
}

std::vector<KernelCounters> counters() {
  std::lock_guard lock(g_counters_mutex);
  std::vector<KernelCounters> list;
  for (const auto& [kernel, each] : all_counters())
    if (each.launches != 0) list.push_back(each);
  return list;
}

void reset_counters() {
  std::lock_guard lock(g_counters_mutex);
  for (auto& [kernel, each] : all_counters()) each = KernelCounters{.kernel = kernel};
}

}  // namespace sandbox::ptx

// Loading, symbol lookup across the images of a module, and variables.
#include "sandbox/ptx/module.h"

#include <bit>
#include <cstring>
#include <shared_mutex>
#include <unordered_set>

#include "sandbox/ptx/address_space.h"
#include "sandbox/ptx/fatbin.h"
#include "sandbox/ptx/handlers.h"

namespace sandbox::ptx {
namespace {

std::shared_mutex g_functions_mutex;
std::unordered_set<const Function*>& functions() {
  static auto* const set = new std::unordered_set<const Function*>;
  return *set;
}

}  // namespace

const Function* find_known_function(std::uint64_t address) {
  std::shared_lock lock(g_functions_mutex);
  const auto* function = reinterpret_cast<const Function*>(address);
  return functions().count(function) ? function : nullptr;
}

void remember_function(const Function& function) {
  std::unique_lock lock(g_functions_mutex);
  functions().insert(&function);
}

std::shared_ptr<Module> Module::from_wrapper(const void* wrapper) {
  auto impl = std::make_unique<Impl>();
  impl->wrapper = wrapper;
  return std::make_shared<Module>(std::move(impl));
}

std::shared_ptr<Module> Module::from_image(std::span<const std::byte> image) {
  auto impl = std::make_unique<Impl>();
  impl->image.assign(image.begin(), image.end());
  return std::make_shared<Module>(std::move(impl));
}

Module::Module(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Module::~Module() = default;

Kernel* Module::kernel(std::string_view name) {
  impl_->load();
  return impl_->kernel(name);
}

std::optional<VariableView> Module::variable(std::string_view name, int device) {
  impl_->load();
  return impl_->variable(name, device);
}

void Module::Impl::load() {
  std::call_once(loaded_, [this] {
    std::vector<std::unique_ptr<Image>> parsed;
    for (auto& text : wrapper ? read_wrapper(wrapper) : read_image(image))
      parsed.push_back(parse_image(std::move(text)));
    for (const auto& each : parsed)
      for (const auto& function : each->functions)
        if (function->defined) remember_function(*function);
    images_ = std::move(parsed);
  });
}

const Function* Module::Impl::find_function(const Image& from, std::string_view name) {
  const auto own = from.function_by_name.find(name);
  if (own == from.function_by_name.end()) return nullptr;
  if (own->second->defined) return own->second;
  for (const auto& other : images_) {
    const auto found = other->function_by_name.find(name);
    if (found != other->function_by_name.end() && found->second->defined && found->second->visible)
      return found->second;
  }
  return own->second;
}

const Variable* Module::Impl::find_variable(const Image& from, std::string_view name) {
  const auto own = from.variable_by_name.find(name);
  if (own == from.variable_by_name.end()) return nullptr;
  const Variable* variable = own->second;
  if (variable->space == Space::shared) return variable;
  if (!variable->external && !variable->visible) return variable;
  // Weak and common variables of several images are one: the first.
  for (const auto& other : images_) {
    const auto found = other->variable_by_name.find(name);
    if (found != other->variable_by_name.end() && !found->second->external && found->second->visible)
      return found->second;
  }
  return variable->external ? nullptr : variable;
}

Kernel* Module::Impl::kernel(std::string_view name) {
  std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(name); known != kernels_.end()) return known->second.get();
  for (const auto& each : images_) {
    const auto found = each->function_by_name.find(name);
    if (found == each->function_by_name.end() || !found->second->entry || !found->second->defined) continue;
    auto& place = kernels_[std::string(name)];
    place = std::make_unique<Kernel>(*found->second, *this);
    return place.get();
  }
  return nullptr;
}

std::optional<VariableView> Module::Impl::variable(std::string_view name, int device) {
  for (const auto& each : images_) {
    const auto found = each->variable_by_name.find(name);
    if (found == each->variable_by_name.end() || found->second->external ||
        found->second->space == Space::shared)
      continue;
    const Variable* one = find_variable(*each, name);
    return memory_of(one ? *one : *found->second, device);
  }
  return std::nullopt;
}

VariableView Module::Impl::memory_of(const Variable& variable, int device) {
  std::lock_guard lock(mutex_);
  const auto [entry, fresh] = memory_.try_emplace({&variable, device});
  if (fresh) {
    const std::size_t bytes = std::max<std::size_t>(variable.bytes, 1);
    void* memory = AddressSpace::instance().allocate(bytes, device, MemoryKind::module_variable);
    if (!memory)
      throw Fault{FaultKind::invalid_image, "no memory for the variable " + std::string(variable.name)};
    std::memset(memory, 0, bytes);
    entry->second = {memory, variable.bytes};
    initialize(variable, static_cast<std::byte*>(memory), device);
  }
  return memory_.at({&variable, device});
}

void Module::Impl::initialize(const Variable& variable, std::byte* memory, int device) {
  const std::size_t scalar = static_cast<std::size_t>(type_bytes(variable.type));
  for (const Initializer& initializer : variable.initializers) {
    std::uint64_t bits = initializer.bits;
    if (initializer.kind == Initializer::Kind::address) {
      if (const Variable* target = find_variable(*variable.image, initializer.symbol))
        bits = reinterpret_cast<std::uint64_t>(memory_of(*target, device).address);
      else if (const Function* function = find_function(*variable.image, initializer.symbol))
        bits = reinterpret_cast<std::uint64_t>(function);
      else
        throw Fault{FaultKind::invalid_image, "the variable " + std::string(variable.name) +
                                                  " holds the address of " + std::string(initializer.symbol) +
                                                  ", which does not exist"};
      bits += static_cast<std::uint64_t>(initializer.offset);
      if (initializer.mask != ~std::uint64_t{0})
        bits = (bits & initializer.mask) >> std::countr_zero(initializer.mask);
    } else if (initializer.kind == Initializer::Kind::floating && scalar == 4) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    }
    std::memcpy(memory, &bits, std::min<std::size_t>(scalar, 8));
    memory += scalar;
  }
}

}  // namespace sandbox::ptx

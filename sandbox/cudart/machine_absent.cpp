// Stands in for the PTX machine until it is part of the build: every kernel is refused by name.
#include "sandbox/ptx/machine.h"

namespace sandbox::ptx {

struct Module::Impl {};
Module::Module(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Module::~Module() = default;
std::shared_ptr<Module> Module::from_wrapper(const void*) {
  return std::make_shared<Module>(nullptr);
}
std::shared_ptr<Module> Module::from_image(std::span<const std::byte>) {
  return std::make_shared<Module>(nullptr);
}
Kernel* Module::kernel(std::string_view name) {
  throw Fault{FaultKind::unsupported, "kernel " + std::string(name) + ": this build has no PTX machine"};
}
std::optional<VariableView> Module::variable(std::string_view, int) {
  return std::nullopt;
}
class Kernel {};
const std::string& name(const Kernel&) {
  static const std::string none;
  return none;
}
KernelAttributes attributes(const Kernel&) {
  return {};
}
std::vector<std::byte> pack_arguments(const Kernel&, void* const*) {
  return {};
}
std::optional<Fault> run(Kernel&, const Launch&) {
  return Fault{FaultKind::unsupported, "this build has no PTX machine"};
}
std::vector<KernelCounters> counters() {
  return {};
}
void reset_counters() {}

}  // namespace sandbox::ptx

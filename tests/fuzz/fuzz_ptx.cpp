// Any text as PTX: it parses and lowers, or ends in a fault that says what is wrong.
#include <exception>

#include "sandbox/ptx/machine.h"
#include "sandbox/ptx/syntax.h"
#include "tests/fuzz/input.h"

using namespace sandbox::ptx;

namespace {

void check(const Fault& fault) {
  sdp4bit::fuzz::require(!fault.message.empty(), "a fault says something");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto image = parse_image(text);
    const auto module = Module::from_image(std::as_bytes(std::span(text)));
    for (const auto& function : image->functions) {
      if (!function->entry) continue;
      Kernel* const kernel = module->kernel(function->name);
      if (!kernel) continue;
      if (const auto fault = refusal(*kernel, {})) check(*fault);
    }
  } catch (const Fault& fault) {
    check(fault);
  }
  return 0;
}

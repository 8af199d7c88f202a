// Any bytes as a fatbin: PTX comes out, or a fault that says what is wrong.
#include "sandbox/ptx/fatbin.h"

#include "sandbox/ptx/machine.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size: what is read behind it is found.
  const std::vector<std::byte> image(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + size);
  try {
    (void)sandbox::ptx::read_image(image);
  } catch (const sandbox::ptx::Fault& fault) {
    sdp4bit::fuzz::require(!fault.message.empty(), "a fault says something");
  }
  return 0;
}

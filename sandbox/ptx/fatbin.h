// The reader of what nvcc embeds in a program: finds, decompresses and chooses the PTX of each image.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sandbox::ptx {

/// The compute capability that the machine emulates: 90, or SANDBOX_COMPUTE_CAPABILITY.
int compute_capability();

/// The best PTX text of each image behind a wrapper given to __cudaRegisterFatBinary (several with
/// relocatable device code). Throws Fault (invalid_image) where there is machine code only.
std::vector<std::string> read_wrapper(const void* wrapper);
/// The same for a bare fatbin container, or for PTX text itself.
std::vector<std::string> read_image(std::span<const std::byte> image);

}  // namespace sandbox::ptx

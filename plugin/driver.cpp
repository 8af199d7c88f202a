// The driver in words, for the first line of the log and for the one that says that CUDA does not work.
#include "plugin/driver.h"

namespace sdp4bit {

std::string cuda_text(int cuda) {
  return std::to_string(cuda / 1000) + "." + std::to_string(cuda / 10 % 100);
}

std::string driver_text(int built_for, int found) {
  const int oldest = oldest_driver(built_for);
  return "CUDA " + cuda_text(built_for) + ", which needs " +
         (oldest == 0 ? "a driver of that major version or later"
                      : "driver " + std::to_string(oldest) + " or later") +
         (found == 0 ? ", found none" : ", found one for CUDA " + cuda_text(found));
}

std::string driver_advice(int built_for, int found) {
  if (found == 0) {
    return "start the container with NVIDIA's runtime (--gpus all), or run this where a driver is; "
           "sdp4bit doctor says what is missing";
  }
  if (found / 1000 < built_for / 1000) {
    const int oldest = oldest_driver(built_for);
    return "install driver " + (oldest == 0 ? "of that CUDA" : std::to_string(oldest)) +
           " or later, or NVIDIA's package cuda-compat, or build sdp4bit with CUDA " +
           std::to_string(found / 1000) + " (docs/install.md)";
  }
  return "the driver is new enough, so look at nvidia-smi and at what sdp4bit doctor says";
}

}  // namespace sdp4bit

// Which NVIDIA driver the CUDA runtime of this build needs, and which one is here.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace sdp4bit {

/// The first branch of drivers that runs programs of a major version of CUDA, whatever its minor version:
/// NVIDIA's table of compatibility. 0 where it is not known.
constexpr int oldest_driver(int cuda) {
  const int major = cuda / 1000;
  return major == 12 ? 525 : major == 13 ? 580 : 0;
}

/// "13.0" of CUDA's version code 13000.
std::string cuda_text(int cuda);

/// "CUDA 13.0, which needs driver 580 or later, found one for CUDA 13.2"; `found` is a version code, 0 for
/// none.
std::string driver_text(int built_for, int found);

/// What to do where CUDA does not work.
std::string driver_advice(int built_for, int found);

/// The version code of the CUDA that the driver is for; 0 without a driver.
inline int found_driver() {
  int version = 0;
  // With an error there is no driver that the library could use either.
  if (cudaDriverGetVersion(&version) != cudaSuccess) version = 0;
  return version;
}

}  // namespace sdp4bit

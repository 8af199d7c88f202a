// The main function of test programs that need a device: without one they say so and are skipped.
#define CATCH_CONFIG_RUNNER
#include <cuda_runtime_api.h>

#include <cstdio>

#include "catch.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;  // SKIP_RETURN_CODE of the test
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no GPU");
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}

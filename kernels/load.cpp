// Loads every kernel of the library on the current device.
#include "kernels/load.h"

#include "kernels/companded.h"
#include "kernels/launch.h"
#include "kernels/launch_checksum.h"

namespace sdp4bit {

cudaError_t load_kernels() {
  for (const auto load :
       {load_checksum, load_companded, load_difference, load_health, load_ledger, load_probe, load_quantize,
        load_reduce_finish, load_reduce_requantize, load_sample}) {
    if (const cudaError_t error = load(); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace sdp4bit

/* What the runtime stand-in offers beyond CUDA, for libraries that put their own work on streams (the NCCL
 * stand-in) and for tests and benchmarks that read the machine's counters. C99; exported by the sandbox's
 * libcudart.so.13. */
#ifndef SANDBOX_CUDART_EXTENSION_H
#define SANDBOX_CUDART_EXTENSION_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Work on a stream, executed on the stream's own thread when everything before it is done. A result other
 * than cudaSuccess becomes the device's sticky error. May block (it occupies only its stream). */
typedef cudaError_t (*sandboxWork)(void* argument);

/* Appends work to a stream. During capture it becomes a node that runs at every replay. `release` (may be
 * NULL) is called once when the argument is needed no more: after execution (or instead of it, when the
 * device has failed), or when the last graph holding it is gone. If this call fails the argument stays the
 * caller's. */
cudaError_t sandboxStreamEnqueue(cudaStream_t stream, const char* name, sandboxWork work, void* argument,
                                 void (*release)(void*));

/* Device of a stream (the NULL and per-thread streams belong to the current device). */
cudaError_t sandboxStreamDevice(cudaStream_t stream, int* device);

/* Checks that a device may read or write [address, address + bytes): bounds, life, and for reads that every
 * byte was written. On failure prints one line that names `who` and the nearest allocation, makes the error
 * sticky on `device` and returns it. */
cudaError_t sandboxCheckRead(int device, const void* address, size_t bytes, const char* who);
cudaError_t sandboxCheckWrite(int device, const void* address, size_t bytes, const char* who);
/* Says that [address, address + bytes) was written outside of kernels and copies. */
void sandboxMarkWritten(void* address, size_t bytes);
/* Copies the "written" state byte by byte, as a memory copy does (a copy of unwritten bytes is not an error).
 */
void sandboxCopyWritten(void* destination, const void* source, size_t bytes);

/* Makes `error` the sticky error of a device: what every later call on it returns. */
void sandboxSetStickyError(int device, cudaError_t error);
cudaError_t sandboxStickyError(int device);

typedef struct {
  char kernel[256];
  uint64_t launches, lane_instructions, global_bytes_loaded, global_bytes_stored, global_requests,
      global_sectors;
} sandboxKernelCounters;

/* Fills up to `capacity` records and returns how many kernels there are. SANDBOX_COUNTERS=1 prints them at
 * exit. */
size_t sandboxGetKernelCounters(sandboxKernelCounters* records, size_t capacity);
void sandboxResetKernelCounters(void);

/* Lets the next `count`-th allocation (1 = the next) of a device fail with cudaErrorMemoryAllocation; 0: off.
 */
void sandboxFailAllocation(int device, uint64_t count);

#ifdef __cplusplus
}
#endif
#endif

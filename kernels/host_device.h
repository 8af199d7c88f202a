// The annotation of functions that host and device share.
#pragma once

#ifdef __CUDACC__
#define SDP4BIT_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define SDP4BIT_HOST_DEVICE inline
#endif

// Registers cannot be indexed, so every loop over a block's values is unrolled on the device.
#ifdef __CUDA_ARCH__
#define SDP4BIT_UNROLL _Pragma("unroll")
#else
#define SDP4BIT_UNROLL
#endif

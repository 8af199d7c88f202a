// The device math library and the headers of narrow types, as ordinary programs use them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#define SINGLE(name, value)                                       \
  extern "C" __global__ void name(const float* from, float* to) { \
    const float x = from[blockIdx.x * blockDim.x + threadIdx.x];  \
    to[blockIdx.x * blockDim.x + threadIdx.x] = value;            \
  }
#define DOUBLE(name, value)                                         \
  extern "C" __global__ void name(const double* from, double* to) { \
    const double x = from[blockIdx.x * blockDim.x + threadIdx.x];   \
    to[blockIdx.x * blockDim.x + threadIdx.x] = value;              \
  }

SINGLE(single_exp, expf(x))
SINGLE(single_log, logf(x))
SINGLE(single_sin, sinf(x))
SINGLE(single_cos, cosf(x))
SINGLE(single_tanh, tanhf(x))
SINGLE(single_erf, erff(x))
SINGLE(single_pow, powf(x, 1.7f))
SINGLE(single_cbrt, cbrtf(x))
SINGLE(single_fmod, fmodf(x, 0.37f))
SINGLE(single_round, roundf(x))
SINGLE(single_sqrt, sqrtf(x))
SINGLE(single_divide, 1.0f / x)
SINGLE(single_hypot, hypotf(x, 3.0f))
SINGLE(single_gamma, lgammaf(x))
DOUBLE(double_exp, exp(x))
DOUBLE(double_log, log(x))
DOUBLE(double_sin, sin(x))
DOUBLE(double_pow, pow(x, 1.7))
DOUBLE(double_sqrt, sqrt(x))
DOUBLE(double_divide, 1.0 / x)
DOUBLE(double_rsqrt, rsqrt(x))

extern "C" __global__ void frexp_and_back(const float* from, float* to, int* exponents) {
  const int index = threadIdx.x;
  int exponent;
  const float mantissa = frexpf(from[index], &exponent);
  exponents[index] = exponent;
  to[index] = ldexpf(mantissa, exponent);
}

extern "C" __global__ void integer_division(const int* from, int* to, int divisor, long long wide) {
  const int value = from[threadIdx.x];
  int* out = to + threadIdx.x * 6;
  out[0] = value / 7;
  out[1] = value % 10;
  out[2] = static_cast<int>(static_cast<unsigned>(value) / 641u);
  out[3] = value / divisor;
  out[4] = static_cast<int>(value * 1000003ll / wide);
  out[5] = static_cast<int>(static_cast<unsigned long long>(value) % static_cast<unsigned long long>(wide));
}

extern "C" __global__ void half_arithmetic(const __half* a, const __half* b, __half* to) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  __half* out = to + index * 6;
  out[0] = a[index] + b[index];
  out[1] = a[index] * b[index];
  out[2] = __hfma(a[index], b[index], a[index]);
  out[3] = __hmax(a[index], b[index]);
  out[4] = a[index] - b[index];
  out[5] = __float2half(__half2float(a[index]) * 1.1f);
}
extern "C" __global__ void brain_arithmetic(const __nv_bfloat16* a, const __nv_bfloat16* b,
                                            __nv_bfloat16* to) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  __nv_bfloat16* out = to + index * 6;
  out[0] = a[index] + b[index];
  out[1] = a[index] * b[index];
  out[2] = __hfma(a[index], b[index], a[index]);
  out[3] = __hmax(a[index], b[index]);
  out[4] = a[index] - b[index];
  out[5] = __float2bfloat16(__bfloat162float(a[index]) * 1.1f);
}
extern "C" __global__ void packed_arithmetic(const __half2* halves, const __nv_bfloat162* brains,
                                             __half2* half_out, __nv_bfloat162* brain_out) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  half_out[index] = __hadd2(__hmul2(halves[index], __half2(1.5f, -2.0f)), __half2(0.25f, 3.0f));
  brain_out[index] =
      __hadd2(__hmul2(brains[index], __nv_bfloat162(1.5f, -2.0f)), __nv_bfloat162(0.25f, 3.0f));
}
extern "C" __global__ void eight_bit_floats(const float* from, unsigned char* codes, float* back) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  const __nv_fp8_e4m3 small(from[index]);
  const __nv_fp8_e5m2 wide(from[index]);
  codes[index * 2] = small.__x;
  codes[index * 2 + 1] = wide.__x;
  back[index * 2] = static_cast<float>(small);
  back[index * 2 + 1] = static_cast<float>(wide);
}
/// Quotient and remainder of 128-bit integers, for which nvcc emits long chains of carries.
extern "C" __global__ void divide_wide(const ulonglong2* numbers, ulonglong2* results) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  const auto load = [](ulonglong2 value) { return static_cast<unsigned __int128>(value.y) << 64 | value.x; };
  const auto store = [](unsigned __int128 value) {
    return ulonglong2{static_cast<unsigned long long>(value), static_cast<unsigned long long>(value >> 64)};
  };
  const unsigned __int128 a = load(numbers[2 * index]), b = load(numbers[2 * index + 1]);
  results[2 * index] = store(a / b);
  results[2 * index + 1] = store(a % b);
}

// Chooses the instruction set: what the CPU has, or what SANDBOX_SIMD names.
#include <cstdlib>
#include <cstring>

#include "sandbox/ptx/handlers.h"
#include "sandbox/ptx/machine.h"
#include "sandbox/ptx/simd/tables.h"

namespace sandbox::ptx {
namespace {

#define FILL(build)                       \
  build::install_integer(table.handlers); \
  build::install_float(table.handlers);   \
  build::install_half(table.handlers);    \
  build::install_convert(table.handlers); \
  build::install_memory(table.handlers);  \
  build::install_shuffle(table.handlers); \
  table.interpret = build::interpret

SimdBuild choose() {
  SimdBuild table{};
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  const char* wanted = std::getenv("SANDBOX_SIMD");
  const auto allowed = [wanted](const char* name) { return !wanted || std::strcmp(wanted, name) == 0; };
  if (has_avx512 && allowed("avx512")) {
    FILL(avx512);
    table.name = "avx512";
  } else if (has_avx2 && (allowed("avx2") || (wanted && std::strcmp(wanted, "avx512") == 0))) {
    FILL(avx2);
    table.name = "avx2";
  } else {
    FILL(baseline);
    table.name = "sse2";
  }
  install_control(table.handlers);
  install_barrier(table.handlers);
  install_collective(table.handlers);
  install_atomic(table.handlers);
  install_system(table.handlers);
  return table;
}

}  // namespace

const SimdBuild& simd_build() {
  static const SimdBuild build = choose();
  return build;
}

const char* simd_name() {
  return simd_build().name;
}

}  // namespace sandbox::ptx

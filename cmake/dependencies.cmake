# What the build needs from outside: the CUDA toolkit's headers and the header of NCCL.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# CMake 3.25.1 does not know this flag of nvcc 13 and would refuse the standard.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION --std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION --std=c++20)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # each library names the runtime it is linked to

# CMake 3.25.1 stops where the toolkit has no nvToolsExt, which CUDA 13 has not; this takes the missing target's place.
if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT TARGET CUDA::nvToolsExt)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
  message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} is of CUDA ${CMAKE_CUDA_COMPILER_VERSION}; sdp4bit needs 12.0 or later: set "
    "-DCMAKE_CUDA_COMPILER=/path/of/a/newer/nvcc (docs/install.md, \"Which CUDA\")")
endif()
find_package(CUDAToolkit REQUIRED)
find_package(Threads REQUIRED)

# CMake looks for the runtime in the system's folders too, where that of another CUDA may lie: what was compiled for one
# would call the other's functions of the same name.
get_target_property(runtime_library CUDA::cudart_static IMPORTED_LOCATION)
set(runtime_asked "${runtime_library} ${CUDAToolkit_VERSION}")
if(NOT CMAKE_CROSSCOMPILING AND NOT "${SDP4BIT_RUNTIME_OF_CUDA}" STREQUAL "${runtime_asked}")
  set(runtime_version_source ${CMAKE_BINARY_DIR}/runtime_version.cpp)
  file(WRITE ${runtime_version_source} [=[
#include <cuda_runtime_api.h>
#include <cstdio>
int main() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return 1;
  std::printf("%d.%d", version / 1000, version / 10 % 100);
  return 0;
}
]=])
  try_run(runtime_ran runtime_linked ${CMAKE_BINARY_DIR}/runtime_version ${runtime_version_source}
    LINK_LIBRARIES CUDA::cudart_static COMPILE_OUTPUT_VARIABLE runtime_log RUN_OUTPUT_VARIABLE runtime_version)
  if(NOT runtime_linked OR NOT runtime_ran EQUAL 0)
    message(FATAL_ERROR "nothing can be linked to the CUDA runtime that was found: ${runtime_log}")
  endif()
  if(NOT runtime_version MATCHES "^${CUDAToolkit_VERSION_MAJOR}\\.")
    message(FATAL_ERROR "${runtime_library} is of CUDA ${runtime_version}, and nvcc of ${CUDAToolkit_VERSION}: set "
      "-DCUDAToolkit_ROOT=/folder/of/the/toolkit (which needs lib64/libcudart.so beside libcudart_static.a), or "
      "-DCUDA_cudart_static_LIBRARY=/path/of/libcudart_static.a")
  endif()
  set(SDP4BIT_RUNTIME_OF_CUDA "${runtime_asked}" CACHE INTERNAL "The CUDA runtime that was found good, and for which nvcc")
endif()

# Headers only; they come with the toolkit, with NVIDIA's wheels as nvidia-nvtx.
find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(NVTX_INCLUDE_DIR)
  option(SDP4BIT_NVTX "Name phases for profilers (NVTX 3)" ON)
else()
  set(SDP4BIT_NVTX OFF CACHE BOOL "Name phases for profilers (NVTX 3); its headers were not found" FORCE)
endif()

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_version REGEX "^#define NCCL_(MAJOR|MINOR) +[0-9]+")
string(REGEX REPLACE "^[^0-9]*([0-9]+)[^0-9]+([0-9]+).*$" "\\1.\\2" nccl_version "${nccl_version}")
if(nccl_version VERSION_LESS 2.18)
  message(FATAL_ERROR "${NCCL_INCLUDE_DIR}/nccl.h is of NCCL ${nccl_version}; sdp4bit needs the header of 2.18 or later (it "
    "then works with every NCCL from 2.16 on): set -DNCCL_INCLUDE_DIR=/folder/of/a/newer/nccl.h; NVIDIA's wheels "
    "nvidia-nccl-cu12 and nvidia-nccl-cu13 hold one")
endif()
if(SDP4BIT_BUILD_SANDBOX AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
  message(FATAL_ERROR "the emulated cluster stands in for CUDA 13, and ${CMAKE_CUDA_COMPILER} is of CUDA "
    "${CMAKE_CUDA_COMPILER_VERSION}: set -DSDP4BIT_BUILD_SANDBOX=OFF, or use the preset cuda12, which does")
endif()
if(SDP4BIT_BUILD_SANDBOX AND nccl_version VERSION_LESS 2.28)
  message(FATAL_ERROR "the emulated cluster needs the headers of NCCL 2.28 or later, and ${NCCL_INCLUDE_DIR}/nccl.h is of "
    "${nccl_version}: set -DNCCL_INCLUDE_DIR=/folder/of/a/newer/nccl.h, or -DSDP4BIT_BUILD_SANDBOX=OFF")
endif()
# The library itself is only for programs that measure or test on GPUs; sdp4bit is never linked to it.
find_library(NCCL_LIBRARY NAMES nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${NCCL_INCLUDE_DIR}/../lib)
add_library(nccl_headers INTERFACE)
target_include_directories(nccl_headers SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})

# Headers only: linking to CUDA::toolkit would add no library either, but this says so.
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})

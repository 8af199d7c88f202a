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
find_package(CUDAToolkit REQUIRED)
find_package(Threads REQUIRED)

# Headers only; they come with the toolkit, with NVIDIA's wheels as nvidia-nvtx.
find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(NVTX_INCLUDE_DIR)
  option(SDP4BIT_NVTX "Name phases for profilers (NVTX 3)" ON)
else()
  set(SDP4BIT_NVTX OFF CACHE BOOL "Name phases for profilers (NVTX 3); its headers were not found" FORCE)
endif()

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
# The library itself is only for programs that measure or test on GPUs; sdp4bit is never linked to it.
find_library(NCCL_LIBRARY NAMES nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${NCCL_INCLUDE_DIR}/../lib)
add_library(nccl_headers INTERFACE)
target_include_directories(nccl_headers SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})

# Headers only: linking to CUDA::toolkit would add no library either, but this says so.
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})

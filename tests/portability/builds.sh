#!/usr/bin/env bash
# usage: builds.sh SOURCE_DIR FOLDER NVCC NCCL_INCLUDE_DIR clang|assertions: a whole build of the library in FOLDER, with
# warnings as errors, and its quick tests of the host.
#
#   clang        clang as compiler and as nvcc's host compiler
#   assertions   libstdc++'s own checks on, in the emulated cluster too: kernels and collectives run with them
set -euo pipefail
source=$1 folder=$2 nvcc=$3 nccl=$4 which=$5
host_tests=(host_kernels host_plugin host_weights)
targets=(sdp4bit sdp4bit_net sdp4bit_profiler "${host_tests[@]}")
arguments=(-DCMAKE_CUDA_COMPILER="$nvcc" -DNCCL_INCLUDE_DIR="$nccl" -DSDP4BIT_WARNINGS_AS_ERRORS=ON)
case $which in
  clang)
    clang=$(command -v clang++ || true)
    [[ -n $clang ]] || { echo "SKIPPED: no clang++ (Debian: clang), so the library was not built with it"; exit 77; }
    arguments+=(-DCMAKE_CXX_COMPILER="$clang" -DCMAKE_C_COMPILER="$(dirname "$clang")/clang" -DCMAKE_CUDA_HOST_COMPILER="$clang"
      -DSDP4BIT_BUILD_SANDBOX=OFF)
    ;;
  assertions)
    arguments+=(-DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS -DCMAKE_CUDA_FLAGS=-Xcompiler=-D_GLIBCXX_ASSERTIONS)
    targets+=(sdp4bit_sandbox collectives_sandbox kernels_gradient kernels_weights)
    ;;
  *) echo "no such build: $which"; exit 2 ;;
esac

quietly() { "$@" >"$folder.log" 2>&1 || { tail -n 60 "$folder.log"; echo "failed: $*"; exit 1; }; }
mkdir -p "$(dirname "$folder")"
quietly cmake --preset dev -S "$source" -B "$folder" "${arguments[@]}"
quietly cmake --build "$folder" -j "$(nproc)" --target "${targets[@]}"
library=$folder/lib/libsdp4bit.so
LD_PRELOAD=$library /bin/true
quietly ctest --test-dir "$folder" --output-on-failure -R '^(host_kernels|host_plugin|host_weights|preload_true_is_silent_gpu)$'
if [[ $which == assertions ]]; then
  quietly ctest --test-dir "$folder" --output-on-failure -R '^kernels_(gradient|weights)$'
  said=$(LD_PRELOAD=$folder/sandbox/lib/libsdp4bit.so timeout 300 "$folder/sandbox/bin/collectives" reduce_scatter -b 1M -d bfloat16 \
    -w 6 -n 1 -g 2 --nodes 2 2>&1) || { echo "$said"; exit 1; }
  grep -q ': works (version' <<<"$said" || { echo "it does not say that it works: $said"; exit 1; }
  said=$(LD_PRELOAD=$folder/sandbox/lib/libsdp4bit.so timeout 300 "$folder/sandbox/bin/collectives" all_gather -b 1M -d bfloat16 \
    -w 20 -n 1 -g 2 --nodes 2 2>&1) || { echo "$said"; exit 1; }
fi
echo "built ($which) and tested: $(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$folder/CMakeCache.txt")"

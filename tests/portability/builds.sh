#!/usr/bin/env bash
# usage: builds.sh SOURCE_DIR FOLDER NVCC NCCL_INCLUDE_DIR clang|assertions [CLANG++]: a whole build of the library in FOLDER, with
# warnings as errors, and its quick tests of the host.
#
#   clang        clang as compiler and as nvcc's host compiler
#   assertions   libstdc++'s own checks on, in the emulated cluster too: kernels and collectives run with them
set -euo pipefail
source=$1 folder=$2 nvcc=$3 nccl=$4 which=$5 clang=${6:-}
host_tests=(host_kernels host_plugin host_weights)
tests=("${host_tests[@]}")
targets=(sdp4bit sdp4bit_net sdp4bit_profiler "${host_tests[@]}")
arguments=(-DCMAKE_CUDA_COMPILER="$nvcc" -DNCCL_INCLUDE_DIR="$nccl" -DSDP4BIT_WARNINGS_AS_ERRORS=ON)
case $which in
  clang)
    [[ -x $clang ]] || { echo "SKIPPED: no clang++ (Debian: clang), so the library was not built with it"; exit 77; }
    name=${clang##*/}  # clang++-14 has clang-14 beside it
    arguments+=(-DCMAKE_CXX_COMPILER="$clang" -DCMAKE_C_COMPILER="${clang%/*}/${name/clang++/clang}"
      -DCMAKE_CUDA_HOST_COMPILER="$clang" -DSDP4BIT_BUILD_SANDBOX=OFF)
    ;;
  assertions)
    arguments+=(-DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS -DCMAKE_CUDA_FLAGS=-Xcompiler=-D_GLIBCXX_ASSERTIONS)
    targets+=(sdp4bit_sandbox collectives_sandbox kernels_gradient kernels_weights)
    # What needs the emulated cluster in the build is not there with clang.
    tests+=(preload_true_is_silent_gpu kernels_gradient kernels_weights)
    ;;
  *) echo "no such build: $which"; exit 2 ;;
esac

quietly() { "$@" >"$folder.log" 2>&1 || { tail -n 60 "$folder.log"; echo "failed: $*"; exit 1; }; }
mkdir -p "$(dirname "$folder")"
quietly cmake --preset dev -S "$source" -B "$folder" "${arguments[@]}"
quietly cmake --build "$folder" -j "$(nproc)" --target "${targets[@]}"
library=$folder/lib/libsdp4bit.so
said=$(LD_PRELOAD=$library /bin/true 2>&1) || { echo "/bin/true does not end well with it: $said"; exit 1; }
[[ -z $said ]] || { echo "preloaded into /bin/true it says: $said"; exit 1; }
# One by one: a name that no test has is an error.
for test in "${tests[@]}"; do
  quietly ctest --test-dir "$folder" --output-on-failure --no-tests=error -R "^$test\$"
done
# works COLLECTIVE WARM_UPS: the library takes the collective.
works() {
  local said
  said=$(LD_PRELOAD=$folder/sandbox/lib/libsdp4bit.so timeout 300 "$folder/sandbox/bin/collectives" "$1" -b 1M -d bfloat16 \
    -w "$2" -n 1 -g 2 --nodes 2 2>&1) || { echo "$said"; exit 1; }
  grep -q ': works (version' <<<"$said" || { echo "it does not say that it works: $said"; exit 1; }
}
if [[ $which == assertions ]]; then
  works reduce_scatter 6
  works all_gather 20
fi
echo "built ($which) and tested: $(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$folder/CMakeCache.txt")"

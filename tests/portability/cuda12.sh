#!/usr/bin/env bash
# usage: cuda12.sh SOURCE_DIR BUILD_DIR FOLDER COMPILER CUDA13_INCLUDE_DIR: the library builds with nvcc 12 and without a
# warning, for compute capability 7.0 too, and what it is made of works: its kernels give the reference's bits and its plugin
# takes collectives, linked to the emulated cluster of BUILD_DIR.
set -euo pipefail
source=$1 build=$2 folder=$3 compiler=$4 cuda13=$5
# shellcheck source=../../scripts/lib/common.sh
. "$source/scripts/lib/common.sh"
# shellcheck source=../../scripts/lib/setup.sh
. "$source/scripts/lib/setup.sh"
# shellcheck source=../../scripts/lib/cuda12.sh
. "$source/scripts/lib/cuda12.sh"
fail() { echo "$*"; exit 1; }

if [[ -n ${CUDA12_HOME:-} ]]; then
  home=$CUDA12_HOME
  nccl=$(find_nccl "$CUDA12_HOME/include" nccl.h) || fail "no nccl.h in $CUDA12_HOME/include or another usual place"
else
  home=$source_dir/build/cuda12-toolkit
  bring_cuda12 "$home" || {
    echo "SKIPPED: Debian's archive or PyPI did not give nvcc 12, so nothing was built with it (CUDA12_HOME names an installed one)"
    [[ ${NETWORK_TESTS_REQUIRED:-0} == 0 ]] || exit 1
    exit 77
  }
  nccl=$home/nccl
fi

# PTX of 7.0 alone: the emulated GPU has nothing else to take, and a build in minutes.
mkdir -p "$folder"
logged() { "$@" >"$folder/log" 2>&1 || { tail -n 60 "$folder/log"; fail "failed: $*"; }; }
configure=(cmake --preset cuda12 -S "$source" -B "$folder/build" -DCMAKE_CUDA_COMPILER="$home/bin/nvcc"
  -DCMAKE_CXX_COMPILER="$compiler" -DNCCL_INCLUDE_DIR="$nccl" -DCMAKE_CUDA_ARCHITECTURES=70-virtual)
if "${configure[@]}" -DSDP4BIT_BUILD_SANDBOX=ON >"$folder/log" 2>&1; then fail "the emulated cluster is built with CUDA 12"; fi
tr -s ' \n' ' ' <"$folder/log" | grep -q 'the emulated cluster stands in for CUDA 13' ||
  { cat "$folder/log"; fail "it does not say why not"; }
logged "${configure[@]}" -DSDP4BIT_BUILD_SANDBOX=OFF -DSDP4BIT_WARNINGS_AS_ERRORS=ON
logged cmake --build "$folder/build" -j "$(nproc)"
library=$folder/build/lib/libsdp4bit.so
[[ -z $(LD_PRELOAD=$library /bin/true 2>&1) ]] || fail "preloaded into /bin/true it says something"
python3 -B "$source/tests/portability/check_size.py" "$library" || fail "beyond the budget of a build with CUDA 12"
facts=$(python3 -B - "$library" <<'EOF'
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
text = ctypes.create_string_buffer(1000)
library.sdp4bitBuildFacts(text, ctypes.c_size_t(1000))
print(text.value.decode())
EOF
)
grep -qx 'cuda_runtime=12[0-9]*' <<<"$facts" || fail "not built with CUDA 12: $facts"
grep -qx 'oldest_driver=525' <<<"$facts" || fail "not for drivers from 525 on: $facts"

# ptxas makes machine code of 7.0 of it; what it cannot do on 7.0 it refuses.
for file in "$source"/kernels/*.cu; do
  "$home/bin/nvcc" -std=c++20 --fmad=false --expt-relaxed-constexpr -I "$source" -ccbin "$compiler" -arch=sm_70 -cubin \
    "$file" -o "$folder/cubin" >"$folder/log" 2>&1 || { tail -n 40 "$folder/log"; fail "ptxas refuses $file for 7.0"; }
done

# Its objects, linked to the emulated cluster.
objects=("$folder"/build/kernels/CMakeFiles/sdp4bit_kernels.dir/*.o)
"$compiler" -c -fPIC -isystem "$cuda13" "$source/tests/portability/cuda12_names.cpp" -o "$folder/names.o"
mapfile -t cases < <(find "$build"/tests/kernels/CMakeFiles/{gradient,weight}_test_cases.dir \
  "$build"/tests/support/CMakeFiles/test_main.dir -name '*.o')
runtime=("$build/sandbox/lib/libcudart.so.13" "-Wl,-rpath,$build/sandbox/lib" -ldl -lpthread)
"$compiler" "${cases[@]}" "${objects[@]}" "$build"/kernels/libsdp4bit_reference.a "${runtime[@]}" -o "$folder/kernels"
"$folder/kernels" >"$folder/log" 2>&1 || { tail -n 40 "$folder/log"; fail "the kernels do not give the reference's bits"; }
tail -n 2 "$folder/log"

"$compiler" -shared -o "$folder/libsdp4bit.so" -Wl,--version-script="$source/plugin/exports.map" -static-libstdc++ \
  "$folder"/build/plugin/CMakeFiles/sdp4bit_plugin.dir/*.o "${objects[@]}" "$folder/names.o" "${runtime[@]}"
program=("$build/sandbox/bin/collectives" -b 1M -d bfloat16 -n 1 -g 2 --nodes 2)
for collective in "reduce_scatter -w 6" "all_gather -w 20"; do
  # shellcheck disable=SC2086  # words
  said=$(LD_PRELOAD=$folder/libsdp4bit.so timeout 300 "${program[0]}" $collective "${program[@]:1}" 2>&1) || fail "$said"
  grep -q ', CUDA 12\.[0-9]*, which needs driver 525 or later, ' <<<"$said" || fail "the first line does not say CUDA 12: $said"
done
grep -v '^sdp4bit' <<<"$said" | tail -n 3
echo "built with $("$home/bin/nvcc" --version | sed -n 's/.*release/release/p'), and run on the emulated cluster"

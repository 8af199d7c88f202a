#!/usr/bin/env bash
# Builds libsdp4bit.so with CUDA 12, for drivers from 525 on and for GPUs of compute capability 7.0: brings the compiler
# where there is none. Needs no root.
#
#   scripts/cuda12.sh [CMAKE ARGUMENT...]
#
#   CUDA12_HOME=FOLDER   an installed CUDA 12 to use, such as /usr/local/cuda-12.9; without it nvcc 12.4 comes from Debian's
#                        archive and the rest from PyPI into build/cuda12-toolkit (some 130 MB; on Debian)
#   anything else        goes to cmake, for example -DCMAKE_CUDA_ARCHITECTURES=70, or -DNCCL_INCLUDE_DIR=/folder/of/nccl.h

# shellcheck source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/setup.sh
. "$source_dir/scripts/lib/setup.sh"
# shellcheck source=lib/cuda12.sh
. "$source_dir/scripts/lib/cuda12.sh"

case ${1:-} in
  -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
home=${CUDA12_HOME:-}
given=()
given_nccl=
for argument; do
  case $argument in
    -DNCCL_INCLUDE_DIR=?* | -DNCCL_INCLUDE_DIR:*=?* | NCCL_INCLUDE_DIR=?* | NCCL_INCLUDE_DIR:*=?*)
      given_nccl=yes
      argument=${argument%%=*}=$(realpath -ms -- "${argument#*=}")  # cmake runs in another folder
      ;;
  esac
  given+=("$argument")
done
nccl=
if [[ -n $home ]]; then
  home=$(realpath -ms -- "$home")  # likewise
  version=$(nvcc_version "$home/bin/nvcc" || true)
  [[ $version == 12.* ]] ||
    give_up "CUDA12_HOME=$home" "its bin/nvcc says ${version:-nothing}, not 12" "name the folder of a CUDA 12"
  # Of any version: CMake says which is too old.
  [[ -n $given_nccl ]] || nccl=$(find_nccl "$home/include" nccl.h) ||
    give_up "nccl.h" "there is none beside $home/bin/nvcc" "python3 -m pip install --no-deps --target $source_dir/build/nccl \
nvidia-nccl-cu12, and give -DNCCL_INCLUDE_DIR=$source_dir/build/nccl/nvidia/nccl/include"
else
  home=$source_dir/build/cuda12-toolkit
  bring_cuda12 "$home" || give_up "nvcc of CUDA 12" \
    "it comes from Debian's archive and PyPI, and the lines above say why not here" \
    "install CUDA 12 by NVIDIA's installer (no root with --toolkitpath) and set CUDA12_HOME to its folder"
  nccl=$home/nccl
fi
# The caller's own comes behind, and cmake takes the last.
arguments=("-DCMAKE_CUDA_COMPILER:FILEPATH=$home/bin/nvcc" ${nccl:+"-DNCCL_INCLUDE_DIR=$nccl"} "${given[@]}")

build_dir=$source_dir/build/cuda12
say "configuring (preset cuda12) with $home/bin/nvcc"
(cd "$source_dir" && quietly configure-cuda12 cmake --preset cuda12 "${arguments[@]}") ||
  give_up "the build could not be configured" "CMake said the lines above (all of it: build/log/configure-cuda12.log)" \
    "see docs/install.md, \"Which CUDA\""
say "building in build/cuda12 with $(nproc) jobs (it takes minutes)"
quietly build-cuda12 cmake --build "$build_dir" -j "$(nproc)" || give_up "the build failed" \
  "the compiler said the lines above" "if the source is unchanged, report them"
say "built: $build_dir/lib/libsdp4bit.so"
echo "to install it: cmake --install build/cuda12 --prefix FOLDER --strip"

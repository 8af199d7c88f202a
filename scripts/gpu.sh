#!/usr/bin/env bash
# Checks and measures everything that needs a GPU, in one call of a few minutes, and writes one JSON file.
#
#   scripts/gpu.sh [--emulated] [--require-gpu] [--seconds N] [--out FILE]
#
#   --emulated      the same steps with the emulated GPU and NCCL: tries this script where there is no GPU
#   --require-gpu   fail where there is none, instead of saying "skipped"
#   --seconds N     give up steps that would end later than this after the start (default: 290)
#   --out FILE      where the result goes (default: build/gpu/result.json)
#
# Steps: build for this GPU; kernels equal the reference; kernels' time and share of a copy's bandwidth; ReduceScatter and
# AllGather on two "nodes" of two ranks, on real NCCL, without and with the library. With fewer than four GPUs the ranks
# share one, which NCCL 2.30 and later can.

# shellcheck source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/setup.sh
. "$source_dir/scripts/lib/setup.sh"
# shellcheck source=lib/build.sh
. "$source_dir/scripts/lib/build.sh"

shared_gpu_nccl=nvidia-nccl-cu13==2.30.7

emulated=0
require_gpu=0
seconds=290
out=
while (($#)); do
  case $1 in
    --emulated) emulated=1 ;;
    --require-gpu) require_gpu=1 ;;
    --seconds | --out)
      (($# > 1)) || give_up "$1" "it needs a value" "see --help"
      if [[ $1 == --out ]]; then out=$2; else seconds=$2; fi
      shift
      ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) give_up "the argument $1" "gpu.sh does not know it" "see --help" ;;
  esac
  shift
done
[[ $seconds =~ ^[0-9]+$ ]] || give_up "--seconds $seconds" "it takes a whole number" "leave it out for 290"

gpus=$(gpu_count)
if ((!emulated && gpus == 0)); then
  echo "skipped: no GPU"
  sed -n '/^# Steps:/,/^$/s/^# \{0,1\}//p' "$0"
  echo "On a machine with one, this is all: scripts/gpu.sh. Without: scripts/gpu.sh --emulated takes the same steps."
  exit "$require_gpu"
fi

set_up_tools
if ((emulated)); then
  preset=dev
  build "$preset" sdp4bit_sandbox collectives_sandbox kernels_sandbox kernels_gradient
else
  preset=gpu
  nccl_dir=$source_dir/build/nccl/${shared_gpu_nccl#*==}
  if [[ ! -e $nccl_dir/nvidia/nccl/lib/libnccl.so ]]; then
    say "installing NCCL from PyPI into ${nccl_dir#"$source_dir"/}: $shared_gpu_nccl"
    quietly nccl python3 -m pip install --disable-pip-version-check --no-deps --target "$nccl_dir" "$shared_gpu_nccl" ||
      give_up "$shared_gpu_nccl" "pip said the lines above (all of it: build/log/nccl.log)" "see that PyPI can be reached"
    ln -sfn libnccl.so.2 "$nccl_dir/nvidia/nccl/lib/libnccl.so"
  fi
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1)
  toolkit_arguments+=("-DNCCL_INCLUDE_DIR=$nccl_dir/nvidia/nccl/include"
    "-DNCCL_LIBRARY=$nccl_dir/nvidia/nccl/lib/libnccl.so" "-DCMAKE_CUDA_ARCHITECTURES=${capability//./}")
  build "$preset" sdp4bit collectives_gpu kernels_gpu gpu_kernels
fi

arguments=(--build "$build_dir" --out "${out:-$source_dir/build/gpu/result.json}" --seconds $((seconds - SECONDS + started_at)))
((!emulated)) || arguments+=(--emulated)
exec python3 -B "$source_dir/scripts/gpu" "${arguments[@]}"

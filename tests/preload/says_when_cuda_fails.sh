#!/bin/bash
# usage: says_when_cuda_fails.sh GPU_LIBRARY PROGRAM: where the library's own CUDA does not work though the program's
# does, as with a driver that is too old for it, calls are NCCL's and one line says why. Here there is no driver at all,
# and the program has the emulated one.
set -eu
[[ ! -e /proc/driver/nvidia/version ]] || { echo "skipped: this machine has a driver"; exit 77; }
output=$(LD_PRELOAD=$1 "$2" 2 2>&1) || { echo "ended with $?: $output"; exit 1; }
[[ $(grep -c '^sdp4bit warn.*: CUDA does not work for sdp4bit in this process (cudaError' <<<"$output") = 1 ]] || { echo "$output"; exit 1; }
grep -qE ': it is built for CUDA [0-9.]+, which needs driver (525|580) or later, found none; start the container with' <<<"$output" ||
  { echo "it does not name the driver that is needed: $output"; exit 1; }

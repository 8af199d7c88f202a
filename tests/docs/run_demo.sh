#!/usr/bin/env bash
# usage: run_demo.sh SOURCE_DIR BUILD_DIR: scripts/demo.sh shows what README.md promises.
set -euo pipefail
cd "$1"
preset=$(basename "$2")
if [[ $(realpath "$2") != $(realpath -m "$1/build/$preset") ]] || ! grep -q "\"name\": \"$preset\"" CMakePresets.json; then
  echo "SKIPPED: scripts/demo.sh builds in build/PRESET, and this build is in $2"
  exit 77
fi
# With the compiler of this build: with another one the script would make the build anew.
CUDACXX=$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$2/CMakeCache.txt")
export CUDACXX
# What is expected below is of the emulated cluster, also on a machine with GPUs.
without_gpus=$(mktemp -d)
trap 'rm -rf "$without_gpus"' EXIT
printf '#!/bin/sh\nexit 1\n' >"$without_gpus/nvidia-smi"
chmod +x "$without_gpus/nvidia-smi"
export PATH=$without_gpus:$PATH
said=$(scripts/demo.sh --preset "$preset" 2>&1) || { echo "$said"; exit 1; }
expect() { grep -qE "$1" <<<"$said" || { echo "not said: $1"; echo "$said"; exit 1; }; }
expect '^sdp4bit info r[0-9]+ d[0-9]+: works \(version .*communicator of 4 ranks on 2 nodes; gradients 4 bits between nodes'
expect '^reduce_scatter .* 16\.0+ -> 4\.2'
expect '^all_gather .* 16\.0+ -> 4\.0'
expect 'The gathered weights are the same, bit for bit, on every rank'
# shellcheck source=../../scripts/lib/python.sh
. scripts/lib/python.sh
if grep -q '^Left out: it needs a python3' <<<"$said" && ! find_python torch matplotlib; then
  echo "SKIPPED: the demo's training, all else is shown: no python3 has torch and matplotlib; scripts/test.sh installs them"
  exit 77
fi
expect '^sdp4bit, its defaults .*[0-9] %, '
expect '^At the end all ranks held the same weights, bit for bit, in every run'
echo "the demo shows it"

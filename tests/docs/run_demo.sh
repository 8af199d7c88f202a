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
said=$(scripts/demo.sh --preset "$preset" 2>&1) || { echo "$said"; exit 1; }
expect() { grep -qE "$1" <<<"$said" || { echo "not said: $1"; echo "$said"; exit 1; }; }
expect '^sdp4bit info r[0-9]+ d[0-9]+: works \(version .*communicator of 4 ranks on 2 nodes; gradients 4 bits between nodes'
expect '^reduce_scatter .* 16\.0+ -> 4\.2'
expect '^all_gather .* 16\.0+ -> 4\.0'
expect 'The gathered weights are the same, bit for bit, on every rank'
# Where torch cannot be had the demo says so; in continuous integration it can.
expect '^sdp4bit, its defaults .*[0-9] %, |^Left out: it needs a python3'
if ! grep -q '^Left out' <<<"$said"; then
  expect '^At the end all ranks held the same weights, bit for bit, in every run'
fi
echo "the demo shows it"

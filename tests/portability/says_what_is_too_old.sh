#!/usr/bin/env bash
# usage: says_what_is_too_old.sh SOURCE_DIR NVCC COMPILER CUDA_INCLUDE_DIR: an nccl.h below 2.18 is refused by CMake, and by
# the compiler where nobody asked CMake, with a line that says what is needed.
set -euo pipefail
source=$1 nvcc=$2 compiler=$3 cuda=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/old"
cat >"$folder/old/nccl.h" <<'EOF'
#define NCCL_MAJOR 2
#define NCCL_MINOR 17
#define NCCL_PATCH 1
#define NCCL_VERSION_CODE 21701
#define NCCL_VERSION(X, Y, Z) ((X) * 10000 + (Y) * 100 + (Z))
EOF
# has TEXT FILE: whatever the lines are broken by.
has() { tr -s ' \n' ' ' <"$2" | grep -qF -- "$1" || { echo "it does not say: $1"; cat "$2"; exit 1; }; }

if cmake -G Ninja -S "$source" -B "$folder/build" -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES=80 \
  -DNCCL_INCLUDE_DIR="$folder/old" >"$folder/said" 2>&1; then
  echo "CMake takes an nccl.h of 2.17"
  exit 1
fi
has "nccl.h is of NCCL 2.17; sdp4bit needs the header of 2.18 or later" "$folder/said"
has "set -DNCCL_INCLUDE_DIR=/folder/of/a/newer/nccl.h" "$folder/said"

if "$compiler" -std=c++20 -fsyntax-only -I "$source" -isystem "$folder/old" -isystem "$cuda" \
  -x c++ "$source/plugin/nccl_versions.h" >"$folder/said" 2>&1; then
  echo "the compiler takes an nccl.h of 2.17"
  exit 1
fi
has "sdp4bit needs the nccl.h of NCCL 2.18 or later: set NCCL_INCLUDE_DIR" "$folder/said"

# What the emulated cluster needs is more.
sed -i 's/MINOR 17/MINOR 20/' "$folder/old/nccl.h"
if cmake -G Ninja -S "$source" -B "$folder/build" -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES=80 \
  -DNCCL_INCLUDE_DIR="$folder/old" >"$folder/said" 2>&1; then
  echo "CMake takes an nccl.h of 2.20 for the emulated cluster"
  exit 1
fi
has "the emulated cluster needs the headers of NCCL 2.28 or later" "$folder/said"

#!/usr/bin/env bash
# usage: compile_all.sh SOURCE_DIR CUDA_INCLUDE_DIR NCCL_INCLUDE_DIR: compiles all host code of the library for aarch64.
set -euo pipefail
source_dir=$1 cuda=$2 nccl=$3
compiler=aarch64-linux-gnu-g++
if ! command -v $compiler >/dev/null; then
  echo "SKIPPED: there is no $compiler (Debian's g++-aarch64-linux-gnu)"
  exit 77
fi
failed=0
while read -r file; do
  $compiler -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror \
    '-DSDP4BIT_VERSION="test"' '-DSDP4BIT_ARCHITECTURES="test"' -I"$source_dir" -I"$source_dir/include" -isystem "$nccl" -isystem "$cuda" "$file" || failed=1
done < <(find "$source_dir/plugin" -name '*.cpp' | sort)
exit $failed

#!/usr/bin/env bash
# Runs one NCCL program on the emulated cluster, as it is and with the library preloaded.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build/dev}")
program=("$build/sandbox/bin/collectives" reduce_scatter -b 4M -d bfloat16 -w 6 -n 4 -g 2 --nodes 2)

echo "as it is:"
"${program[@]}"
echo "preloaded:"
LD_PRELOAD="$build/sandbox/lib/libsdp4bit.so" "${program[@]}"

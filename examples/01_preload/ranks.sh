#!/usr/bin/env bash
# Starts the ranks of a program as a launcher does, one process each, on the emulated cluster: 2 nodes with 2 ranks.
#
#   examples/01_preload/ranks.sh [BUILD_DIR]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build/dev}")
id=$(mktemp -u)

pids=()
for rank in 0 1 2 3; do
  # What torchrun would set, and which node this rank plays; mpirun and srun have names of their own.
  RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank NCCL_HOSTID=node$((rank / 2)) SANDBOX_DEVICES=4 \
    LD_PRELOAD="$build/sandbox/lib/libsdp4bit.so" \
    "$build/sandbox/bin/collectives" reduce_scatter -b 4M -d bfloat16 -w 6 -n 4 --id-file "$id" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done

#!/usr/bin/env bash
# usage: ranges.sh LIBRARY PROFILER PROGRAM: every phase shows under its name, and every range is closed.
set -euo pipefail
library=$1 profiler=$2 program=$3
file=$(mktemp)
trap 'rm "$file"' EXIT
env LD_PRELOAD="$library" NVTX_INJECTION64_PATH="$profiler" RANGES_FILE="$file" SANDBOX_DEVICES=4 \
  SDP4BIT_LOCAL_SIZE=2 SDP4BIT_MIN_BYTES=0 SDP4BIT_COMMS=all "$program" preloaded
[[ $(head -1 "$file") == "domain sdp4bit" ]] || { cat "$file"; exit 1; }
for name in handshake connect "gradient quantize" "gradient reduce_requantize" "gradient reduce_finish" exchange \
  "weight record" "weight entries" "weight encode" "weight add" "weight scatter"; do
  grep -qx "push $name" "$file" || { echo "no range $name"; exit 1; }
done
[[ $(grep -c '^push ' "$file") = $(grep -cx pop "$file") ]] || { echo "ranges are left open"; exit 1; }

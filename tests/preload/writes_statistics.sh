#!/bin/bash
# usage: writes_statistics.sh LIBRARY PROGRAM: the files that SDP4BIT_STATS and SDP4BIT_METRICS name, and the summary.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
output=$(LD_PRELOAD=$1 SDP4BIT_LOG=info RANK=3 SDP4BIT_STATS="$folder/%r.json" SDP4BIT_METRICS="$folder/metrics" "$2" 2>&1)
grep -q 'reduce_scatter: one_rank 1' <<<"$output" || { echo "$output"; exit 1; }
grep -q '"one_rank": 1' "$folder/3.json"
if command -v python3 >/dev/null; then python3 -m json.tool "$folder/3.json" >/dev/null; fi
grep -q '^sdp4bit_calls_total{.*collective="reduce_scatter",reason="one_rank"} 1$' "$folder/metrics"
[ "$(find "$folder" -type f | wc -l)" = 2 ] || { ls "$folder"; exit 1; }

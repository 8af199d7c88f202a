#!/bin/bash
# usage: workers.sh LIBRARY PROGRAM: a launcher hands the library on to its workers and makes no calls itself.
. "$(dirname "$0")/run.sh"
export PROGRAM=$2
# shellcheck disable=SC2016  # the launcher expands it
run LD_PRELOAD="$1" SDP4BIT_STATS="$folder/%p.json" bash -c '
for rank in 0 1 2; do RANK=$rank env "$PROGRAM" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid"; done'
worker="calls 12 compressed 6 network own"
expect_out "$(printf '%s\n' "$worker" "$worker" "$worker")"
[ "$(find "$folder" -name '*.json' | wc -l)" = 3 ] || { ls "$folder"; exit 1; }

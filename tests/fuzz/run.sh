#!/bin/bash
# usage: run.sh TARGET CORPUS SECONDS: feeds a fuzz target for so many seconds of the processor, from its corpus; one JSON
# line at the end.
set -eu
target=$1 corpus=$2 seconds=$3
[ -x "$target" ] || { echo "skipped: clang++ with libFuzzer is not installed (Debian: clang libclang-rt-dev)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/new"
# A busy machine gives a process few of the clock's seconds: rounds go on, each with what the ones before found, and only an
# input that takes the clock's 100 seconds is one that never ends.
used=0 inputs=0 seed=0
while [ "$used" -lt "$seconds" ]; do
  # New inputs go to a folder of their own; seeds are fixed, so that a finding comes again.
  seed=$((seed + 1))
  if ! (
    "$target" "$work/new" "$corpus" -seed="$seed" -max_total_time=$((seconds - used)) -timeout=100 -rss_limit_mb=2048 \
      -max_len=65536 -artifact_prefix="$PWD/finding-$(basename "$target")-" -print_final_stats=1 >"$work/log" 2>&1 || exit 1
    times >"$work/times"
  ); then
    tail -60 "$work/log"
    echo "the input is kept in $PWD; put it into $corpus with the correction"
    exit 1
  fi
  # The last line of `times` is what the shell's children took: minutes and seconds, the program's and the system's.
  spent=$(tail -1 "$work/times" | sed 's/[ms]/ /g' | awk '{print int($1 * 60 + $2 + $3 * 60 + $4 + 0.5)}')
  used=$((used + (spent > 0 ? spent : 1)))
  inputs=$((inputs + $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")))
done
edges=$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' "$work/log" | tail -1)
printf '{"fuzz": "%s", "seconds": %s, "inputs": %s, "edges": %s, "corpus": %s, "findings": 0}\n' "$(basename "$target")" \
  "$used" "$inputs" "${edges:-0}" "$(find "$corpus" -type f | wc -l)"

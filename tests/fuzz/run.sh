#!/bin/bash
# usage: run.sh TARGET CORPUS SECONDS: feeds a fuzz target for so long, from its corpus; one JSON line at the end.
set -eu
target=$1 corpus=$2 seconds=$3
[ -x "$target" ] || { echo "skipped: clang++ with libFuzzer is not installed (Debian: clang libclang-rt-dev)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/new"
# New inputs go to a folder of their own; the seed is fixed, so that a finding comes again.
if ! "$target" "$work/new" "$corpus" -seed=1 -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
  -artifact_prefix="$PWD/finding-$(basename "$target")-" -print_final_stats=1 >"$work/log" 2>&1; then
  tail -60 "$work/log"
  echo "the input is kept in $PWD; put it into $corpus with the correction"
  exit 1
fi
value() { sed -n "s/^stat::$1: *//p" "$work/log"; }
edges=$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' "$work/log" | tail -1)
printf '{"fuzz": "%s", "seconds": %s, "inputs": %s, "edges": %s, "corpus": %s, "findings": 0}\n' "$(basename "$target")" \
  "$seconds" "$(value number_of_executed_units)" "${edges:-0}" "$(find "$corpus" -type f | wc -l)"

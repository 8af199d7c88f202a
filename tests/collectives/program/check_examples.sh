#!/usr/bin/env bash
# The run lines of examples/ do what their pages say, on the emulated cluster.
#
#   check_examples.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
cd "$1"
build=$2
# The rows' twelfth column: bits between nodes.
bits() { awk '$1 == "reduce_scatter" { print $12 }' <<<"$1" | paste -sd ' '; }

said=$(bash examples/01_preload/run.sh "$build" 2>&1)
[[ $(bits "$said") =~ ^16\.000\ 4\.2[0-9]*$ ]] || { echo "01_preload/run.sh: $said"; exit 1; }
[[ $(grep -c '^sdp4bit info .* works (version ' <<<"$said") == 4 ]] || { echo "not a line a process: $said"; exit 1; }

# No option tells these ranks how many nodes there are.
said=$(bash examples/01_preload/ranks.sh "$build" 2>&1)
[[ $(bits "$said") =~ ^4\.2[0-9]*$ && $said == *"4 ranks on 2 nodes"* ]] || { echo "01_preload/ranks.sh: $said"; exit 1; }
echo "the examples run"

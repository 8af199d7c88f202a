#!/usr/bin/env bash
# usage: files.sh LIBRARY PROGRAM CHECKER: the files of statistics are whole, right, and say the same.
set -euo pipefail
library=$1 program=$2 checker=$3
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
env LD_PRELOAD="$library" SANDBOX_DEVICES=4 SDP4BIT_LOCAL_SIZE=2 SDP4BIT_MIN_BYTES=0 SDP4BIT_COMMS=all RANK=5 \
  SDP4BIT_LOG=info SDP4BIT_STATS="$folder/%h-%p-%r-100%%.json" SDP4BIT_METRICS="$folder/metrics.prom" \
  "$program" preloaded 2>"$folder/log" || { cat "$folder/log"; exit 1; }
json=("$folder"/*.json)
[[ ${#json[@]} = 1 && ${json[0]} == "$folder/$(uname -n)-"*-5-100%.json ]] || { ls "$folder"; exit 1; }
grep -q '^sdp4bit info.*: reduce_scatter: compressed 12 not_agreed_yet 12, given [0-9]* bytes, sent [0-9]* bytes between nodes' "$folder/log" ||
  { cat "$folder/log"; exit 1; }
grep -q '^sdp4bit info.*: classes of weights: 4 in difference, 0 learning, 0 native; 0 jumps' "$folder/log" ||
  { cat "$folder/log"; exit 1; }
python3 "$checker" "${json[0]}" "$folder/metrics.prom"
[[ $(find "$folder" -type f | wc -l) = 3 ]] || { ls "$folder"; exit 1; }  # no drafts are left

# K5: every variable is shown once, those that are set apart.
[[ $(grep -c 'SDP4BIT_COMMS=' "$folder/log") = 0 ]] || { cat "$folder/log"; exit 1; }  # this is not rank 0
env LD_PRELOAD="$library" SANDBOX_DEVICES=4 SDP4BIT_LOCAL_SIZE=2 SDP4BIT_MIN_BYTES=0 SDP4BIT_COMMS=all RANK=0 \
  SDP4BIT_LOG=info SDP4BIT_SEED=1 "$program" preloaded 2>"$folder/log"
grep -q '^sdp4bit info.*: options set: SDP4BIT_COMMS=all SDP4BIT_MIN_BYTES=0 SDP4BIT_LOCAL_SIZE=2 SDP4BIT_LOG=info$' "$folder/log" ||
  { cat "$folder/log"; exit 1; }
[[ $(grep 'options at their defaults:' "$folder/log" | grep -o 'SDP4BIT_[A-Z_]*=' | sort -u | wc -l) -ge 25 ]] ||
  { cat "$folder/log"; exit 1; }

# K8: the files are there and whole while the program runs; this one never reaches its end.
env LD_PRELOAD="$library" SANDBOX_DEVICES=4 SDP4BIT_LOCAL_SIZE=2 SDP4BIT_MIN_BYTES=0 SDP4BIT_COMMS=all \
  SDP4BIT_STATS="$folder/killed.json" SDP4BIT_METRICS="$folder/killed.prom" "$program" preloaded killed
python3 -m json.tool "$folder/killed.json" >/dev/null
grep -q '^sdp4bit_executed_calls_total{communicator="0",.*} [0-9]*$' "$folder/killed.prom"

# K7: each path that cannot be written is said once, counted at each try, and harms nothing.
output=$(env LD_PRELOAD="$library" SANDBOX_DEVICES=4 SDP4BIT_LOCAL_SIZE=2 SDP4BIT_MIN_BYTES=0 SDP4BIT_COMMS=all \
  SDP4BIT_LOG=info SDP4BIT_STATS="$folder/missing/a" SDP4BIT_METRICS="$folder/missing/b" "$program" preloaded 2>&1)
for name in a:SDP4BIT_STATS b:SDP4BIT_METRICS; do
  [[ $(grep -c "cannot write $folder/missing/${name%:*} .*: correct ${name#*:} " <<<"$output") = 1 ]] || { echo "$output"; exit 1; }
done
grep -q 'files of statistics that could not be written: [1-9][0-9]*$' <<<"$output" || { echo "$output"; exit 1; }

#!/bin/bash
# usage: says_what_is_wrong.sh LIBRARY PROGRAM: one line for each variable that is refused or unknown, none for others.
set -eu
run() { env LD_PRELOAD="$library" "$@" "$program" 2>&1; }
library=$1 program=$2
expect_lines() {  # count, pattern, output
  [ "$(grep -c "^sdp4bit warn.*$2" <<<"$3")" = "$1" ] || { echo "expected $1 lines with: $2"; echo "$3"; exit 1; }
}
output=$(run SDP4BIT_SEED=4bits SDP4BIT_MIN_BYTE=1 SDP4BIT_GRAD_GROUP=64)
expect_lines 1 'SDP4BIT_SEED="4bits" is refused; accepted: a number; in force is "1"' "$output"
expect_lines 1 'SDP4BIT_MIN_BYTE is no variable.*nearest is SDP4BIT_MIN_BYTES' "$output"
expect_lines 2 '' "$output"
output=$(run SDP4BIT_SEED=7)
[ -z "$output" ] || { echo "$output"; exit 1; }

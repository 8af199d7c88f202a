#!/bin/bash
# usage: links.sh LIBRARY PROGRAM: statistics never go through a link or over what is no file, and hold no addresses.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo precious >"$folder/victim"

run() { LD_PRELOAD=$library SDP4BIT_STATS="$folder/$1" SDP4BIT_METRICS="$folder/metrics" "$program" 2>&1; }
fail() { echo "$1"; ls -l "$folder"; exit 1; }
library=$1 program=$2

ln -s victim "$folder/link"
output=$(run link)
[ "$(cat "$folder/victim")" = precious ] || fail "wrote through a link"
[ -L "$folder/link" ] || fail "replaced a link"
grep -q "cannot write $folder/link (it is a link; name the file itself): correct SDP4BIT_STATS" <<<"$output" || fail "$output"

mkfifo "$folder/pipe"
output=$(run pipe)
[ -p "$folder/pipe" ] || fail "replaced a pipe"
grep -q "cannot write $folder/pipe (it is no regular file; name a file): correct SDP4BIT_STATS" <<<"$output" || fail "$output"

# A stranger who knows the process's number plants a link under the name that the file has while it is written.
SDP4BIT_STATS="$folder/stats" bash -c '
  ln -s victim "$SDP4BIT_STATS.$(hostname).$$.new"
  exec env LD_PRELOAD="$0" "$1"' "$library" "$program"
[ "$(cat "$folder/victim")" = precious ] || fail "wrote through a link at the draft's name"
grep -q '"one_rank": 1' "$folder/stats" || fail "no statistics"

! grep -E '0x[0-9a-f]{4,}|[0-9a-f]{12,}' "$folder/stats" "$folder/metrics" || fail "addresses in the statistics"

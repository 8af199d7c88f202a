#!/bin/sh
# The runtime stand-in exports every function that CUDA's header declares, under CUDA's version name, and nothing else.
# usage: exports_test.sh NM LIBRARY HEADER
set -eu
nm=$1 library=$2 header=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$nm" -D --defined-only "$library" | awk '{ print $3 }' | sort -u > "$work/exported"
sed 's/@@.*//' "$work/exported" | sort -u > "$work/names"
# Declarations end in a semicolon; inline templates of the C++ part do not start a line like this.
tr '\n' ' ' < "$header" | grep -oE 'cudaError_t CUDARTAPI cuda[A-Za-z0-9_]+\(' | sed -E 's/.* (cuda[A-Za-z0-9_]+)\(/\1/' |
  sort -u > "$work/declared"
test "$(wc -l < "$work/declared")" -gt 250

status=0
if ! comm -13 "$work/names" "$work/declared" | diff - /dev/null > "$work/missing"; then
  echo "declared but not exported:"; cat "$work/missing"; status=1
fi
if grep -vE '^((__)?cuda|sandbox)[A-Za-z0-9_]*@@libcudart\.so\.13$|^libcudart\.so\.13(@@libcudart\.so\.13)?$' "$work/exported"; then
  echo "exported, but not a name of the runtime"; status=1
fi
exit $status

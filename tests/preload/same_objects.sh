#!/bin/bash
# usage: same_objects.sh LIBRARY LIBRARY: the code of the project is the same in both, function by function.
set -eu
code() {  # name and size of all our functions and data; what the runtimes bring is not ours
  nm -S --defined-only "$1" | awk 'NF == 4 && $3 ~ /^[tTrRbBdDwWvV]$/ && $4 ~ /sdp4bit|^nccl/ {print $4, $2}' | sort
}
[ "$(code "$1" | wc -l)" -gt 100 ] || { echo "no symbols to compare"; exit 1; }
diff <(code "$1") <(code "$2")

#!/bin/bash
# usage: true_is_silent.sh LIBRARY: a process that never calls NCCL runs as if the library were not there.
set -eu
for program in /bin/true "/bin/bash -c :" "/usr/bin/env LC_ALL=C ls /"; do
  output=$(LD_PRELOAD=$1 $program 2>&1 >/dev/null) || { echo "$program failed with code $?"; exit 1; }
  [ -z "$output" ] || { echo "$program printed: $output"; exit 1; }
done
status=0
LD_PRELOAD=$1 /bin/false || status=$?
[ $status = 1 ] || { echo "/bin/false ended with $status"; exit 1; }

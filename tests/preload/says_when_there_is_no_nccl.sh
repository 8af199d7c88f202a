#!/bin/bash
# usage: says_when_there_is_no_nccl.sh LIBRARY PROGRAM: a call without any NCCL is an error that says so.
set -eu
status=0
output=$(LD_PRELOAD=$1 "$2" 2>&1) || status=$?
[ $status = 2 ] || { echo "ended with $status"; exit 1; }  # ncclSystemError
grep -q '^sdp4bit error: .*pncclAllGather' <<<"$output" || { echo "$output"; exit 1; }

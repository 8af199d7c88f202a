#!/bin/bash
# usage: copies.sh LIBRARY PROGRAM MODULE MODULE THIRD_NCCL: two libraries with an NCCL each, and a third by pointers.
. "$(dirname "$0")/run.sh"
run LD_PRELOAD="$1" "$2" "$3" "$4" "$5"
expect_out "all well"
expect_lines 1 "another copy of NCCL"
expect_lines 1 "error: .*a communicator made by NCCL .* is used in a group of NCCL"
expect_lines 0 "depends on none"

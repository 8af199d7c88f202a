#!/bin/bash
# usage: neighbours.sh LIBRARY PROGRAM SHIM STUB STUB: other libraries that have NCCL's names, before and behind us.
. "$(dirname "$0")/run.sh"
library=$1 program=$2 shim=$3 stub=$4 versioned=$5
run LD_PRELOAD="$shim:$library" "$program"  # it comes first and passes on to us
[ "$(grep -c '^shim$' "$folder/out")" = 1 ]
expect_lines 0 "is not called"
run LD_PRELOAD="$library:$shim" "$program"
[ "$(grep -c '^shim$' "$folder/out" || true)" = 0 ]
expect_lines 1 "warn: .*$(basename "$shim") also takes the place.*LD_PRELOAD"
run LD_PRELOAD="$library:$stub" "$program"  # not mistaken for NCCL
expect_lines 1 "warn: .*$(basename "$stub") defines pncclAllGather but lacks pncclSend.*passed over"
run LD_PRELOAD="$library:$versioned" "$program"
expect_lines 1 "warn: .*$(basename "$versioned") says that it is NCCL version 5, which cannot be.*passed over"

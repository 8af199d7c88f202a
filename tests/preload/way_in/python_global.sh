#!/bin/bash
# usage: python_global.sh LIBRARY MODULE: Python loads the library before, or after, a framework of its own.
. "$(dirname "$0")/run.sh"
run python3 -c '
import ctypes, sys
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
sys.exit(ctypes.CDLL(sys.argv[2]).module_job())' "$1" "$2"
expect_out "calls 12 compressed 6 network own"
expect_lines 1 ""  # the line that says that it works
run python3 -c '
import ctypes, sys
module = ctypes.CDLL(sys.argv[2])
assert ctypes.CDLL(sys.argv[1]).sdp4bitTakeCalls(None) > 0
sys.exit(module.module_job())' "$1" "$2"
expect_out "calls 12 compressed 6 network own"
expect_lines 1 "references to NCCL in 1 objects lead to sdp4bit now, 0 did before"

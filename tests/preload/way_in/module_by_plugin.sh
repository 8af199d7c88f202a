#!/bin/bash
# usage: module_by_plugin.sh LIBRARIES LOADER MODULE PROGRAM: NCCL came with a library that was loaded RTLD_LOCAL, or
# with the program, and another library comes after us.
. "$(dirname "$0")/run.sh"
export LD_LIBRARY_PATH=$1
run NCCL_NET_PLUGIN=sdp4bit "$2" "$3"
expect_out "calls 12 compressed 6 network own"
expect_lines 1 "loaded by NCCL as a net plugin"
run "$2" "$3" take
expect_out "calls 12 compressed 6 network own"
expect_lines 1 "lead to sdp4bit now"
run LD_PRELOAD="$1/libsdp4bit.so" "$2" "$3" deep  # preloading does not reach it
expect_out "calls 0 compressed 0 network own"
run NCCL_NET_PLUGIN=sdp4bit "$2" "$3" deep
expect_out "calls 12 compressed 6 network own"
run NCCL_NET_PLUGIN=sdp4bit SDP4BIT_LOG=info "$4" "$3"
expect_out "calls 24 compressed 12 network own"
expect_lines 1 "7 references to NCCL in 1 objects that were loaded later"

#!/bin/bash
# usage: module_by_plugin.sh LIBRARIES LOADER MODULE: NCCL came with a library that was loaded RTLD_LOCAL.
. "$(dirname "$0")/run.sh"
export LD_LIBRARY_PATH=$1
run NCCL_NET_PLUGIN=sdp4bit "$2" "$3"
expect_out "calls 12 compressed 6 network own"
expect_lines 1 "loaded by NCCL as a net plugin"
run "$2" "$3" take
expect_out "calls 12 compressed 6 network own"
expect_lines 1 "lead to sdp4bit now"

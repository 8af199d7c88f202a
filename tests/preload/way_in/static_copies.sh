#!/bin/bash
# usage: static_copies.sh LIBRARIES LOADER STATIC SYMBOLIC COPIES STATIC2: NCCL linked statically into what uses it:
# with symbols that can be taken; bound at link time, which is said where we can; and in two libraries at once.
. "$(dirname "$0")/run.sh"
libraries=$1 loader=$2 static=$3 symbolic=$4 copies=$5 static2=$6
run LD_PRELOAD="$libraries/libsdp4bit.so" "$loader" "$static"
expect_out "calls 12 compressed 6 network unknown"
run LD_PRELOAD="$libraries/libsdp4bit.so" "$loader" "$symbolic"
expect_out "calls 0 compressed 0 network unknown"
run LD_LIBRARY_PATH="$libraries" NCCL_NET_PLUGIN=sdp4bit "$loader" "$symbolic"
expect_out "calls 0 compressed 0 network unknown"
expect_lines 1 "no loaded object calls NCCL in a way that can be taken"
run LD_PRELOAD="$libraries/libsdp4bit.so" "$copies" "$static" "$static2"
expect_out "all well"
expect_lines 1 "another copy of NCCL.*linked statically.*linked statically"

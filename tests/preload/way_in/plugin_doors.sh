#!/bin/bash
# usage: plugin_doors.sh LIBRARIES SITE DEFAULT VERSION PROGRAM...: each program, bound to NCCL before we come, is
# taken over by the door that this version of NCCL has; SITE and DEFAULT hold a site's net plugin under its own
# and under the default name.
. "$(dirname "$0")/run.sh"
libraries=$1 site=$2 default=$3 version=$4
shift 4
export SANDBOX_NCCL_VERSION=$version LD_LIBRARY_PATH=$libraries
minor=${version#2.} minor=${minor%%.*}
taken="calls 12 compressed 6 network"
success="references to NCCL in [1-9]"

for program; do
  run NCCL_NET_PLUGIN=sdp4bit "$program"
  expect_out "$taken own"
  expect_lines 1 "loaded by NCCL as a net plugin.*$success"
  expect_lines 1 "as a .* plugin"
done
program=$1

run "$program"  # without us nothing is different
expect_out "calls 0 compressed 0 network own"
expect_lines 0 ""

run LD_PRELOAD="$libraries/libsdp4bit.so" NCCL_NET_PLUGIN=sdp4bit "$program"  # both ways: once
expect_out "$taken own"
expect_lines 1 "$success\|, [1-9][0-9]* did before"

if [ "$minor" -ge 21 ]; then  # by path
  run LD_LIBRARY_PATH= NCCL_NET_PLUGIN="$libraries/libnccl-net-sdp4bit.so" "$program"
  expect_out "$taken own"
fi

if [ "$minor" -ge 23 ]; then
  run NCCL_PROFILER_PLUGIN=sdp4bit "$program"
  expect_out "$taken own"
  expect_lines 1 "loaded by NCCL as a profiler plugin.*$success"
  run NCCL_PROFILER_PLUGIN=sdp4bit LD_LIBRARY_PATH="$libraries:$default" "$program"  # the site's plugin keeps its place
  expect_out "$taken site"
fi

# Alone we would take the place of the site's plugin: said, and nothing taken.
run LD_LIBRARY_PATH="$libraries:$default" NCCL_NET_PLUGIN=sdp4bit "$program"
expect_out "calls 0 compressed 0 network own"
expect_lines 1 "error: .*keeps NCCL $version.*libnccl-net.so; no calls are taken"
expect_lines 1 ""

run LD_PRELOAD="$libraries/libsdp4bit.so" LD_LIBRARY_PATH="$libraries:$default" NCCL_NET_PLUGIN=sdp4bit "$program"
expect_out "$taken own"
expect_lines 1 "error: .*libnccl-net.so; calls are taken all the same.*unset NCCL_NET_PLUGIN"

if [ "$minor" -ge 27 ]; then
  run LD_LIBRARY_PATH="$libraries:$site:$default" NCCL_NET_PLUGIN=sdp4bit,site "$program"
  expect_out "$taken site"
  run LD_LIBRARY_PATH="$libraries:$default" NCCL_NET_PLUGIN=sdp4bit,libnccl-net.so "$program"  # what the line advises
  expect_out "$taken site"
fi

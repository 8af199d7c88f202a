#!/bin/bash
# usage: needs_no_nccl.sh LIBRARY: the build for GPUs pulls neither NCCL nor a CUDA runtime into a process.
set -eu
# Not `! grep`: a command that `!` turns round never ends a script under `set -e`.
if readelf -d "$1" | grep NEEDED | grep -E 'libnccl|libcudart|libcuda\.'; then exit 1; fi
readelf -d "$1" | grep SONAME | grep -q 'libsdp4bit.so.0'

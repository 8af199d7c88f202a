#!/bin/bash
# usage: needs_no_nccl.sh LIBRARY: the build for GPUs pulls neither NCCL nor a CUDA runtime into a process.
set -eu
! readelf -d "$1" | grep NEEDED | grep -E 'libnccl|libcudart|libcuda\.'
readelf -d "$1" | grep SONAME | grep -q 'libsdp4bit.so.0'

#!/usr/bin/env bash
# usage: toolkit_is_kept.sh SOURCE_DIR: the set-up uses the toolkit it brought earlier, and never deletes it while it is in use.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
nvcc=$folder/toolkit/nvidia/cu13/bin/nvcc
headers=$folder/toolkit/nvidia/nccl/include
mkdir -p "$(dirname "$nvcc")" "$headers/nccl_device"
touch "$headers/nccl.h" "$headers/nccl_device/core.h"
printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n' >"$nvcc"
chmod +x "$nvcc"
echo "all that was asked for" >"$folder/toolkit/complete"

# set_up [COMMAND]: as the scripts do it, after COMMAND; nothing is installed.
set_up() {
  CUDACXX=$nvcc bash -c '. "$1/scripts/lib/common.sh"; . "$1/scripts/lib/setup.sh"; toolkit_dir=$2/toolkit; log_dir=$2/log
    missing_packages() { :; }
    python3() { echo "pip was called" >&2; return 1; }
    eval "$3"
    set_up_tools; echo "${toolkit_arguments[*]}"' set_up "$1" "$folder" "${2:-}" 2>&1
}

said=$(set_up "$1") || { echo "the compiler and the headers that are there are not used: $said"; exit 1; }
grep -qx -- ".* -DNCCL_INCLUDE_DIR=$headers" <<<"$said" ||
  { echo "no headers: $said"; exit 1; }
[[ -x $nvcc ]] || { echo "the compiler is gone"; exit 1; }

# Without the headers.
if said=$(set_up "$1" 'find_nccl() { return 1; }'); then echo "not refused: $said"; exit 1; fi
[[ -x $nvcc ]] || { echo "the compiler in use was deleted: $said"; exit 1; }
grep -q "^cannot go on: .*holds the compiler in use" <<<"$said" || { echo "not said why: $said"; exit 1; }
echo "the toolkit is kept"

#!/usr/bin/env bash
# usage: scripts_of_cuda12.sh SOURCE_DIR: what brings CUDA 12 takes no half toolkit, and scripts/cuda12.sh hands to cmake what it
# is given. Nothing is downloaded or built: stand-ins play apt, pip, nvcc and cmake, and a copy of the scripts is run.
set -euo pipefail
folder=$(realpath "$(mktemp -d)")
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/tree" "$folder/bin"
cp -a "$1/scripts" "$folder/tree/"
cd "$folder"
fail() { echo "$*"; exit 1; }

# What a download leaves; nvcc of it says its version.
cat >bring.sh <<'EOF'
. tree/scripts/lib/common.sh
. tree/scripts/lib/setup.sh
. tree/scripts/lib/cuda12.sh
toolkit_dir=$PWD/none
download_from_debian() { touch "$1/${cuda12_package}_1.deb"; }
dpkg-deb() {
  local usr=$3/usr
  mkdir -p "$usr/bin" "$usr/lib/$cuda12_package/bin/crt" "$usr/lib/$cuda12_package/libdevice"
  touch "$usr"/bin/{cudafe++,ptxas,fatbinary,bin2c,nvlink,cuobjdump} "$usr/lib/$cuda12_package/bin/cicc"
  printf '#!/bin/sh\necho release 12.4,\n' >"$usr/lib/$cuda12_package/bin/nvcc"
  chmod +x "$usr/lib/$cuda12_package/bin/nvcc"
}
python3() {
  local target=$7
  echo "$*" >>brought
  mkdir -p "$target"/nvidia/{cuda_runtime/{include,lib},nccl/include,nvtx/include/nvtx3}
  touch "$target"/nvidia/{cuda_runtime/{include/cuda_runtime.h,lib/libcudart.so.12},nccl/include/nccl.h}
  touch "$target/nvidia/nvtx/include/nvtx3/nvToolsExt.h"
  [[ $which == half && $target == */runtime ]] || touch "$target/nvidia/cuda_runtime/lib/libcudart_static.a"
  [[ $which == headless && $target == */headers ]] && rm "$target/nvidia/cuda_runtime/include/cuda_runtime.h"
  true
}
which=$1
cuda12_nccl=${2:-$cuda12_nccl}
if bring_cuda12 "$PWD/toolkit"; then echo taken; else echo refused; fi
EOF
brings() { bash bring.sh "$@" 2>&1 | tail -n 1; }
for which in half headless; do
  [[ $(brings $which) == refused && ! -e toolkit/complete ]] || fail "a toolkit is taken that is $which"
done
[[ $(brings whole) == taken && -f toolkit/complete && -x toolkit/bin/nvcc ]] || fail "a whole toolkit is refused"
rm brought
[[ $(brings half) == taken && ! -e brought ]] || fail "what is there is brought once more"
[[ $(brings whole nvidia-nccl-cu12==9) == taken && -e brought ]] || fail "other versions are asked for, and the old toolkit is kept"

# An installed one, named by a relative path, with no nccl.h of 2.28 anywhere near it.
mkdir -p home/bin home/include
printf '#!/bin/sh\necho "release 12.9, V12.9.1"\n' >home/bin/nvcc
# shellcheck disable=SC2016  # the stand-in's own
printf '#!/bin/sh\nprintf "%%s\\n" "$@" >>%s\n' "$folder/asked" >bin/cmake
chmod +x home/bin/nvcc bin/cmake
# has WORD: cmake got it.
has() { grep -qxF -- "$1" asked || fail "cmake is not given $1: $(cat asked)"; }
script() { CUDA12_HOME=home PATH=$folder/bin:$PATH bash tree/scripts/cuda12.sh "$@" >said 2>&1; }
script -DNCCL_INCLUDE_DIR=/of/the/caller || fail "with -DNCCL_INCLUDE_DIR it gives up: $(cat said)"
has "-DNCCL_INCLUDE_DIR=/of/the/caller"
has "-DCMAKE_CUDA_COMPILER:FILEPATH=$folder/home/bin/nvcc"
rm asked
script -DNCCL_INCLUDE_DIR:PATH=home/include || fail "with a relative NCCL_INCLUDE_DIR it gives up: $(cat said)"
has "-DNCCL_INCLUDE_DIR:PATH=$folder/home/include"
touch home/include/nccl.h
rm asked
script || fail "an nccl.h without nccl_device is refused: $(cat said)"
has "-DNCCL_INCLUDE_DIR=$folder/home/include"
echo "half toolkits are refused, other versions brought anew, and cmake gets what was given"

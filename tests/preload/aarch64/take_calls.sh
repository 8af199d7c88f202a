#!/usr/bin/env bash
# usage: take_calls.sh SOURCE_DIR BUILD_DIR CUDA_INCLUDE_DIR NCCL_INCLUDE_DIR: rewrites the GOTs of aarch64 programs.
set -euo pipefail
source_dir=$1 build=$2 cuda=$3 nccl=$4
here=$source_dir/tests/preload/aarch64
compiler=aarch64-linux-gnu-g++
if ! command -v $compiler >/dev/null; then
  echo "SKIPPED: there is no $compiler (Debian's g++-aarch64-linux-gnu)"
  exit 77
fi
if ! emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static); then
  echo "SKIPPED: there is no qemu-aarch64 (Debian's qemu-user)"
  exit 77
fi
mkdir -p "$build"
cd "$build"
flags=(-std=c++20 -O1 -fPIC -fvisibility=hidden '-DSDP4BIT_VERSION="test"'
  -I"$source_dir" -I"$source_dir/include" -isystem "$nccl" -isystem "$cuda")

# A few entries instead of all: the real ones need CUDA, and how calls come to them is what is tested.
$compiler "${flags[@]}" -shared -o libsdp4bit.so -Wl,-soname,libsdp4bit.so -Wl,-z,defs -Wl,-z,nodelete \
  "$here/entries.cpp" "$source_dir"/plugin/{late_binding,loaded_object,real_nccl,log,error,options,option_table,option_values,presets}.cpp -ldl
$compiler "${flags[@]}" -shared -o libnccl.so.2 -Wl,-soname,libnccl.so.2 "$here/stand_in.cpp"
$compiler "${flags[@]}" -shared -o libnccl-net-sdp4bit.so "$source_dir/plugin/doors/net.cpp" \
  ./libsdp4bit.so -Wl,-rpath,"\$ORIGIN"
$compiler "${flags[@]}" -shared -o later.so "$here/later.cpp" ./libnccl.so.2
program() {
  local name=$1
  shift
  $compiler "${flags[@]}" "$@" -o "$name" "$here/bound.cpp" ./libnccl.so.2 -ldl -Wl,-rpath,"$build"
}
program lazy -Wl,-z,lazy -Wl,-z,norelro
program now_relro -Wl,-z,now -Wl,-z,relro
program no_plt -fno-plt -Wl,-z,now -Wl,-z,relro
program old_hash -Wl,--hash-style=sysv
program fixed_place -fno-pie -no-pie

failed=0
for name in lazy now_relro no_plt old_hash fixed_place; do
  for library in libsdp4bit.so libnccl-net-sdp4bit.so; do
    echo "== $name, by $library"
    "$emulator" -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$build" "./$name" "$build/$library" "$build/later.so" || failed=1
  done
done
exit $failed

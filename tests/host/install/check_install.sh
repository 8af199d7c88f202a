#!/usr/bin/env bash
# Installs into an empty folder and uses what is there as a stranger would: files, names, a C99 program, a package.
#
#   check_install.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

expect() {
  [[ $2 == "$3" ]] || { printf '%s: expected "%s", found "%s"\n' "$1" "$3" "$2"; exit 1; }
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }

for file in lib/libsdp4bit.so lib/libsdp4bit.so.0 lib/libnccl-net-sdp4bit.so lib/libnccl-profiler-sdp4bit.so \
  include/sdp4bit/sdp4bit.h lib/cmake/sdp4bit/sdp4bit-config.cmake \
  share/doc/sdp4bit/LICENSE; do
  [[ -e $prefix/$file ]] || { echo "not installed: $file"; exit 1; }
done
dynamic=$(readelf -d "$prefix/lib/libsdp4bit.so")
expect "the library's name" "$(sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' <<<"$dynamic")" libsdp4bit.so.0
expect "search paths in the library" "$(grep -cE 'RPATH|RUNPATH' <<<"$dynamic" || true)" 0
expect "paths of the build in the installed text files" "$(grep -rlI --exclude-dir=doc -F "$source" "$prefix" || true)" ""

# The public header is C99 and needs nothing but itself.
echo '#include <sdp4bit/sdp4bit.h>
int main(void) { return 0; }' >"$work/header.c"
cc -std=c99 -Wall -Wextra -Wpedantic -Werror -I "$prefix/include" -c "$work/header.c" -o "$work/header.o"

# The package: a project that finds it, compiles against its header and links to its library.
mkdir "$work/consumer"
cat >"$work/consumer/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(sdp4bit 0.1 REQUIRED)
add_executable(consumer ../header.c)
target_link_libraries(consumer PRIVATE sdp4bit::sdp4bit)
PROJECT
{ cmake -G Ninja -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" &&
  cmake --build "$work/consumer/build"; } >"$work/consumer.log" 2>&1 || { cat "$work/consumer.log"; exit 1; }

# Preloaded where it has no business, it is not noticed.
expect "what a preloaded /bin/true prints" "$(LD_PRELOAD=$prefix/lib/libsdp4bit.so /bin/true 2>&1)" ""

# The plugins for NCCL look for the library beside themselves.
for plugin in net profiler; do
  expect "search path of the $plugin plugin" \
    "$(readelf -d "$prefix/lib/libnccl-$plugin-sdp4bit.so" | sed -n 's/.*(RUNPATH).*\[\(.*\)\]/\1/p')" "\$ORIGIN"
done
echo "installed, found and used"

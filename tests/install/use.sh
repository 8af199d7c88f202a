# Uses what lies below a prefix as a stranger would. Sourced by the tests.
# shellcheck shell=bash

set -euo pipefail
build=$1
source=$2
here=$(dirname "${BASH_SOURCE[0]}")
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "$*"; exit 1; }
expect() { [[ $2 == "$3" ]] || fail "$(printf '%s: expected "%s", found "%s"' "$1" "$3" "$2")"; }
# quietly COMMAND...: its output is shown if it fails.
quietly() { "$@" >"$work/output" 2>&1 || { cat "$work/output"; fail "failed: $*"; }; }

# libraries FOLDER: they are named and linked as NCCL, the loader and a moved prefix need it.
check_libraries() {
  local file
  for file in libsdp4bit.so libsdp4bit.so.0 libnccl-net-sdp4bit.so libnccl-profiler-sdp4bit.so; do
    [[ -e $1/$file ]] || fail "not there: $1/$file"
  done
  expect "the library's name" "$(readelf -d "$1/libsdp4bit.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" libsdp4bit.so.0
  for file in "$1"/*.so "$1"/sdp4bit/emulator/*; do
    [[ -f $file ]] || continue
    expect "search path of $file, but for its own folder" \
      "$(readelf -d "$file" | sed -nE 's/.*\((RUNPATH|RPATH)\).*\[(.*)\]/\2/p' | grep -vFx "\$ORIGIN" || true)" ""
  done
  expect "what a preloaded /bin/true prints" "$(LD_PRELOAD=$1/libsdp4bit.so /bin/true 2>&1)" ""
}

# check_stripped FOLDER: no debugging information, and nothing of the builder's folders.
check_stripped() {
  expect "sections for a debugger in libsdp4bit.so" "$(readelf -SW "$1/libsdp4bit.so" | grep -c ' \.debug_' || true)" 0
}

# check_no_paths PREFIX: the build's folders are named nowhere.
check_no_paths() {
  expect "files that name the build's folder" "$(grep -rlF --exclude-dir=doc -e "$source/" -e "$build" "$1" || true)" ""
}

# check_development PREFIX LIBDIR: a C99 program, a project that finds the package, and pkg-config.
check_development() {
  local prefix=$1 libdir=$2 flags library=$1/$2/libsdp4bit.so
  cc -std=c99 -Wall -Wextra -Wpedantic -Werror -I "$prefix/include" "$here/consumer/ask.c" -ldl -o "$work/c99"
  expect "a C99 program alone" "$("$work/c99")" "not loaded"
  expect "it with the library preloaded" "$(LD_PRELOAD=$library "$work/c99")" "version $version, options: yes"

  rm -rf "$work/consumer"
  quietly cmake -G Ninja -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix"
  quietly cmake --build "$work/consumer"
  expect "a project that takes the header" "$("$work/consumer/asks")" "not loaded"
  expect "a project that links to the library" "$("$work/consumer/linked")" "version $version"

  flags=$(PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig pkg-config --cflags --libs sdp4bit)
  # shellcheck disable=SC2086  # they are words
  cc -std=c99 "$here/consumer/ask.c" $flags -o "$work/by_pkg_config"
  expect "a program by pkg-config" "$("$work/by_pkg_config")" "not loaded"
  expect "the library that pkg-config names" \
    "$(realpath "$(PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig pkg-config --variable=preload sdp4bit)")" "$(realpath "$library")"
}

# check_tool PREFIX LIBDIR: the command finds the library that was installed with it.
check_tool() {
  "$1/bin/sdp4bit" --help >/dev/null || fail "the command sdp4bit does not start"
  "$1/bin/sdp4bit" options >"$work/options" || fail "the command sdp4bit does not find its library"
  grep -q SDP4BIT_MIN_BYTES "$work/options" || fail "sdp4bit options does not show them"
}

# check_program PREFIX LIBDIR: the measuring program, without the library, with it, and with the one for GPUs.
check_program() {
  local emulator=$1/bin/sdp4bit-emulator program=(collectives reduce_scatter -b 1M -d bfloat16 -w 6 -n 1 -g 2 --nodes 2)
  bits() { grep -v '^#' "$1" | awk '{ print $12 }'; }
  timeout 60 "$emulator" "${program[@]}" >"$work/native" 2>"$work/native.log" || fail "$(cat "$work/native.log")"
  expect "bits between nodes as it is" "$(bits "$work/native")" 16.000
  timeout 60 "$emulator" --preload "${program[@]}" >"$work/preloaded" 2>"$work/preloaded.log" ||
    fail "with the library: $(cat "$work/preloaded.log")"
  [[ $(bits "$work/preloaded") == 4.[23]* ]] || fail "bits between nodes with the library: $(bits "$work/preloaded")"
  expect "ranks that say that it works" "$(grep -c 'sdp4bit info .*: works (version' "$work/preloaded.log")" 4
  expect "programs that the emulator does not know" "$("$emulator" nowhere 2>/dev/null; echo $?)" 127
  # The one for GPUs finds no driver here: everything stays with NCCL, and it says why.
  LD_PRELOAD=$1/$2/libsdp4bit.so timeout 60 "$emulator" "${program[@]}" >"$work/no_device" 2>"$work/no_device.log" ||
    fail "without a device: $(cat "$work/no_device.log")"
  expect "bits between nodes where the library has no device" "$(bits "$work/no_device")" 16.000
  grep -q 'sdp4bit .*CUDA does not work' "$work/no_device.log" || fail "it does not say that it has no device: $(cat "$work/no_device.log")"
}

# need PROGRAM PACKAGE: skips the test where it is missing.
need() {
  command -v "$1" >/dev/null || { echo "SKIPPED: no $1 (Debian: $2), so the test of the installation cannot be made"; exit 77; }
}
need pkg-config pkg-config

#!/usr/bin/env bash
# The archives: unpacked into an empty folder.
#
#   archive.sh BUILD_DIR SOURCE_DIR
. "$(dirname "$0")/use.sh"

quietly cpack --config "$build/CPackConfig.cmake" -G TGZ -B "$work/packages"
libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$build/CMakeCache.txt")
system=Linux-$(uname -m)
product=$work/packages/sdp4bit-$version-$system.tar.gz
emulator=$work/packages/sdp4bit-emulator-$version-$system.tar.gz
(cd "$work/packages" && quietly sha256sum -c "${product##*/}.sha256" "${emulator##*/}.sha256")

umask 077
mkdir "$work/empty"
tar xzf "$product" -C "$work/empty" --strip-components 1
check_libraries "$work/empty/$libdir"
check_stripped "$work/empty/$libdir"
check_no_paths "$work/empty"
expect "what comes with the product of the emulated cluster" "$(find "$work/empty" -path '*emulator*')" ""
expect "files that others may write" "$(tar tvzf "$product" | awk '$1 ~ /^-.......w/')" ""
check_tool "$work/empty" "$libdir"
tar xzf "$emulator" -C "$work/empty" --strip-components 1
check_libraries "$work/empty/$libdir"
check_program "$work/empty" "$libdir"
check_development "$work/empty" "$libdir"
echo "unpacked and used: $(du -h "$product" "$emulator" | awk '{ print $1 }' | xargs)"

#!/usr/bin/env bash
# `cmake --install`: into a prefix that is then moved, and with DESTDIR.
#
#   tree.sh BUILD_DIR SOURCE_DIR
. "$(dirname "$0")/use.sh"
libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$build/CMakeCache.txt")

quietly cmake --install "$build" --prefix "$work/first"
[[ ! -e $work/first/$libdir/sdp4bit/emulator ]] || fail "the emulated cluster was installed though nobody asked for it"
quietly cmake --install "$build" --prefix "$work/first" --component emulator
prefix=$work/moved
mv "$work/first" "$prefix"

check_libraries "$prefix/$libdir"
for file in README.md CHANGELOG.md LICENSE docs/options.md examples/01_preload/README.md; do
  [[ -f $prefix/share/doc/sdp4bit/$file ]] || fail "not installed: $file"
done
expect "folders below the prefix" "$(cd "$prefix" && echo *)" "bin include $libdir share"
check_development "$prefix" "$libdir"
check_tool "$prefix" "$libdir"
check_program "$prefix" "$libdir"

DESTDIR=$work/root quietly cmake --install "$build" --prefix /opt/sdp4bit
[[ -f $work/root/opt/sdp4bit/$libdir/libsdp4bit.so ]] || fail "DESTDIR has no effect"
diff <(cd "$work/root/opt/sdp4bit" && find . ! -type d | sort) \
  <(cd "$prefix" && find . ! -type d ! -path '*emulator*' ! -path '*__pycache__*' | sort) || fail "DESTDIR changes what is installed"
echo "installed, moved and used"

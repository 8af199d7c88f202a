#!/usr/bin/env bash
# Debian's packages: what they say, their installation by dpkg into an empty root, and their removal.
#
#   debian.sh BUILD_DIR SOURCE_DIR
. "$(dirname "$0")/use.sh"
need dpkg-shlibdeps dpkg-dev
need file file

quietly cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/packages"
machine=$(dpkg --print-architecture)
libdir=usr/lib/$(sed -n 's/^CMAKE_LIBRARY_ARCHITECTURE:INTERNAL=//p;s/^CMAKE_C_LIBRARY_ARCHITECTURE:INTERNAL=//p' \
  "$build/CMakeCache.txt" | head -1)
[[ $libdir != usr/lib/ ]] || libdir=usr/lib/$(uname -m)-linux-gnu
product=$work/packages/sdp4bit_$version-1_$machine.deb
emulator=$work/packages/sdp4bit-emulator_$version-1_$machine.deb
[[ -f $work/packages/sdp4bit-dbgsym_$version-1_$machine.ddeb ]] || fail "no package of debugging information"

# What they say and hold.
needs=$(dpkg-deb -f "$product" Depends)
[[ $needs == *libc6* ]] || fail "depends on: $needs"
[[ ! "$needs $(dpkg-deb -f "$emulator" Depends)" =~ nccl|cuda|nvidia ]] || fail "NVIDIA's libraries are no dependency: $needs"
for field in Maintainer Section Description Recommends; do
  [[ -n $(dpkg-deb -f "$product" $field) ]] || fail "no field $field"
done
expect "control files" "$(dpkg-deb --ctrl-tarfile "$product" | tar t | sort | xargs)" \
  "./control ./md5sums ./postinst ./postrm ./prerm ./triggers"
expect "what they do, but for removing what Python compiled" \
  "$(dpkg-deb --ctrl-tarfile "$product" | tar xO ./postinst ./postrm | grep -vE '^(#.*|set -e)$' || true)" ""
expect "triggers" "$(dpkg-deb --ctrl-tarfile "$product" | tar xO ./triggers)" "activate-noawait ldconfig"
contents=$(dpkg-deb -c "$product"; dpkg-deb -c "$emulator")
expect "files of others than root" "$(awk '$2 != "root/root"' <<<"$contents")" ""
expect "files with odd modes" "$(awk '$1 !~ /^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx)$/' <<<"$contents")" ""
expect "places outside of usr/bin, usr/lib, usr/include and usr/share (LD_PRELOAD is set nowhere)" \
  "$(awk '{ print $6 }' <<<"$contents" | grep -vE '^\./(usr/((bin|lib|include|share)/.*)?)?$' || true)" ""

# An empty root, whose database knows the packages that these depend on, as this machine has them.
root=$work/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
for package in $( (echo "$needs"; dpkg-deb -f "$emulator" Depends) | tr ',' '\n' | awk '{ print $1 }' | sort -u); do
  dpkg -s "$package" 2>/dev/null | sed '/^Conffiles:/,/^[^ ]/{/^ /d;/^Conffiles:/d}'
  echo
  : >"$root/var/lib/dpkg/info/$package.list"
  : >"$root/var/lib/dpkg/info/$package:$machine.list"
done >"$root/var/lib/dpkg/status"
as_root=()
if [[ $(id -u) != 0 ]]; then need fakeroot fakeroot; as_root=(fakeroot); fi
install_into_root() {
  PATH=$PATH:/usr/sbin:/sbin quietly "${as_root[@]}" dpkg --root="$root" --no-triggers --force-script-chrootless "$@"
}
install_into_root -i "$product" "$emulator"
expect "its state" "$(dpkg --root="$root" -s sdp4bit | sed -n 's/^Status: //p')" "install ok installed"
[[ -f $root/usr/share/doc/sdp4bit/copyright && -f $root/usr/share/man/man1/sdp4bit.1.gz ]] || fail "no copyright or manual"
check_libraries "$root/$libdir"
check_stripped "$root/$libdir"
check_no_paths "$root/usr"
check_tool "$root/usr" "${libdir#usr/}"
check_program "$root/usr" "${libdir#usr/}"
check_development "$root/usr" "${libdir#usr/}"
# By name alone, where the loader looks.
expect "the library by its name" "$(LD_LIBRARY_PATH=$root/$libdir LD_PRELOAD=libsdp4bit.so "$work/c99" 2>&1)" \
  "version $version, options: yes"

# Removed, with what Python left behind, nothing stays.
mkdir -p "$root/usr/share/sdp4bit/sdp4bit_tool/__pycache__"
: >"$root/usr/share/sdp4bit/sdp4bit_tool/__pycache__/main.cpython-311.pyc"
install_into_root -r sdp4bit-emulator sdp4bit
expect "what stays" "$(find "$root" -path "$root/var" -prune -o -type f -print)" ""
echo "installed by dpkg, used and removed; depends on $needs"

#!/bin/bash
# usage: runs_on_old_systems.sh FILE...: what built libraries ask of the system that loads them, and how they are linked.
#
# A preloaded library that asks for a newer glibc than there is ends every process of the job, so the bound is the
# glibc that docs/launching.md promises, whatever system it was built on: older than any that CUDA 13 supports.
set -eu
bound=2.18
allowed_needs='libsdp4bit.so.0 libcudart.so.13 libdl.so.2 libpthread.so.0 librt.so.1 libm.so.6 libgcc_s.so.1 libc.so.6 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1'
size_bound=$((4 << 20))  # without debugging information: 2.2 MiB with PTX alone, 2.6 MiB with the code of one architecture
failed=0

complain() { echo "$file: $1"; failed=1; }

for file in "$@"; do
  newest=$(readelf -VW "$file" | grep -oE 'Name: GLIBC_[0-9.]+' | sed 's/.*_//' | sort -V | tail -1)
  echo "$file asks for glibc ${newest:-of any version}"
  if [[ $(printf '%s\n' "${newest:-0}" $bound | sort -V | tail -1) != "$bound" ]]; then
    complain "asks for glibc $newest, and $bound is the bound (cmake/old_glibc.cmake says how it is kept), for:"
    readelf --dyn-syms -W "$file" | awk '/UND/ && /@GLIBC_/ { print $8 }' | while IFS=@ read -r name version; do
      version=${version#@}
      [[ $(printf '%s\n' "${version#GLIBC_}" $bound | sort -V | tail -1) == "$bound" ]] || echo "  $name $version"
    done
  fi
  # GCC_7.0.0 came with GCC 7, older than any compiler of CUDA 13.
  newest=$(readelf -VW "$file" | grep -oE 'Name: GCC_[0-9.]+' | sed 's/.*_//' | sort -V | tail -1)
  [[ $(printf '%s\n' "${newest:-0}" 7.0.0 | sort -V | tail -1) == 7.0.0 ]] || complain "asks for a libgcc of GCC $newest"
  if readelf -VW "$file" | grep -E 'Name: (GLIBCXX|CXXABI)_'; then complain "asks for the process's libstdc++"; fi

  dynamic=$(readelf -dW "$file")
  while read -r need; do
    [[ " $allowed_needs " == *" $need "* ]] || complain "needs $need"
  done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
  grep -q 'BIND_NOW' <<<"$dynamic" || complain "binds lazily: no full RELRO"
  ! grep -q 'TEXTREL' <<<"$dynamic" || complain "has relocations in its code"
  ! grep -q '(RPATH)' <<<"$dynamic" || complain "has an RPATH"
  segments=$(readelf -lW "$file")
  grep -q 'GNU_RELRO' <<<"$segments" || complain "has no RELRO"
  grep 'GNU_STACK' <<<"$segments" | grep -q 'RW ' || complain "wants an executable stack"
  # Such a symbol would be one with the program's own, whatever the map says.
  if readelf --dyn-syms -W "$file" | grep ' UNIQUE '; then complain "shares symbols with all libraries of the process"; fi

  stripped=$(mktemp)
  strip -o "$stripped" "$file"
  size=$(stat -c %s "$stripped")
  rm -f "$stripped"
  echo "  $size bytes without debugging information"
  ((size <= size_bound)) || complain "$size bytes without debugging information; the bound is $size_bound"
done
exit $failed

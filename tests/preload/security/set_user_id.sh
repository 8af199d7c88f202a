#!/bin/bash
# usage: set_user_id.sh LIBRARY PROGRAM: who starts a program that runs with another's rights cannot steer the library.
set -eu
[ "$(id -u)" = 0 ] || { echo "skipped: only root can make a set-user-ID program"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cp "$2" "$folder/program"
cp "$1" "$folder/libsdp4bit.so"
names=(SDP4BIT_ENABLE SDP4BIT_LOG SDP4BIT_SEED SDP4BIT_STATS)
asked() { SDP4BIT_LOG=trace SDP4BIT_SEED=7 SDP4BIT_STATS="$folder/stats" "$folder/program" "$folder/libsdp4bit.so" "${names[@]}"; }

[ "$(asked | tr '\n' ' ')" = "SDP4BIT_ENABLE=1 SDP4BIT_LOG=trace SDP4BIT_SEED=7 SDP4BIT_STATS=$folder/stats " ] || {
  echo "an ordinary program: $(asked)"; exit 1; }

chown nobody "$folder/program"
chmod u+s "$folder/program"
if findmnt -n -o OPTIONS --target "$folder" 2>/dev/null | grep -q nosuid; then
  echo "skipped: $folder lies on a file system that honours no set-user-ID bit"
  exit 77
fi
[ "$(asked | tr '\n' ' ')" = "SDP4BIT_ENABLE=0 SDP4BIT_LOG=none SDP4BIT_SEED=1 SDP4BIT_STATS= " ] || {
  echo "a set-user-ID program: $(asked)"; exit 1; }

# What the tests of this folder share: how a program is run, and what its two outputs must hold.
# shellcheck shell=bash
set -eu
export SANDBOX_NODES=2 SANDBOX_DEVICES=2 SDP4BIT_COMMS=all SDP4BIT_MIN_BYTES=0 SDP4BIT_WATCHDOG=0
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

run() {  # [NAME=value ...] PROGRAM ARGUMENT ...
  if ! env "$@" >"$folder/out" 2>"$folder/err"; then
    echo "failed: $*"
    cat "$folder/out" "$folder/err"
    exit 1
  fi
}

expect_out() {  # the whole output
  [ "$(cat "$folder/out")" = "$1" ] || { echo "expected: $1"; cat "$folder/out" "$folder/err"; exit 1; }
}

expect_lines() {  # COUNT PATTERN: that many lines of sdp4bit's with the pattern
  [ "$(grep -c "^sdp4bit.*$2" "$folder/err")" = "$1" ] || {
    echo "expected $1 lines with: $2"
    cat "$folder/err"
    exit 1
  }
}

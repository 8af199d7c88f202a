# What every script shares: where things are, how progress looks, how a script gives up.
# Sourced, never run.
# shellcheck shell=bash disable=SC2034

set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
toolkit_dir=$source_dir/build/toolkit
sass_dir=$source_dir/build/sass
log_dir=$source_dir/build/log
started_at=$SECONDS

# say TEXT: one line of progress, with the seconds since the start.
say() { printf '[%3d s] %s\n' $((SECONDS - started_at)) "$*"; }

# give_up WHAT WHY DO: the one clear line about something that cannot be had.
give_up() {
  printf 'cannot go on: %s. Why: %s. What to do: %s.\n' "$1" "$2" "$3" >&2
  exit 1
}

# quietly NAME COMMAND...: runs a command with its output in build/log/NAME.log; shows the end of that if it fails.
quietly() {
  local log=$log_dir/$1.log
  shift
  mkdir -p "$log_dir"
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    return 1
  fi
}

# gpu_count: how many NVIDIA GPUs this machine can use.
gpu_count() {
  local count=0
  if command -v nvidia-smi >/dev/null 2>&1; then
    count=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
  fi
  echo "$count"
}

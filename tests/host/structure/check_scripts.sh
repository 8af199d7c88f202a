#!/usr/bin/env bash
# Every script parses, and shellcheck, where it is installed, has nothing to say.
set -euo pipefail
cd "$1"
mapfile -t scripts < <(find .ci scripts tests examples tools -type f \( -name '*.sh' -o -path '.ci/run' \) 2>/dev/null)
((${#scripts[@]} >= 3)) || { echo "only ${#scripts[@]} scripts found"; exit 1; }
for script in "${scripts[@]}"; do bash -n "$script"; done
if command -v shellcheck >/dev/null; then
  shellcheck "${scripts[@]}"
else
  echo "shellcheck is not installed; only bash -n was run"
fi
echo "${#scripts[@]} scripts are fine"

#!/usr/bin/env bash
# usage: with_python.sh none|MODULE,... ARGUMENT...: runs a Python that has the modules; skips where there is none.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=../../scripts/lib/python.sh
. "$here/../../scripts/lib/python.sh"
modules=()
[[ $1 == none ]] || IFS=, read -ra modules <<<"$1"
shift
python=
if ! find_python "${modules[@]}"; then
  echo "SKIPPED: no python3 has ${modules[*]}; scripts/test.sh installs it"
  exit 77
fi
exec "$python" "$@"

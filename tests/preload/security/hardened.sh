#!/bin/bash
# usage: hardened.sh LIBRARY...: compiled with guarded stacks and checked copies; runs_on_old_systems has how it is linked.
set -eu
for library in "$@"; do
  imports=$(nm -D --undefined-only "$library" | sed 's/.* U //; s/@.*//')
  grep -qx __stack_chk_fail <<<"$imports" || { echo "$library: no stack protector"; exit 1; }
  grep -qE '^__(v?snprintf|mem(cpy|move|set)|read|str(n?cpy|n?cat))_chk$' <<<"$imports" || {
    echo "$library: no _FORTIFY_SOURCE; it imports no checked function"; exit 1; }
done

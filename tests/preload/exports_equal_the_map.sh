#!/bin/bash
# usage: exports_equal_the_map.sh LIBRARY MAP: what the library exports is what the map lists, name by name.
set -eu
diff <(sed -n 's/^ *\([A-Za-z0-9_]*\);$/\1/p' "$2" | sort) <(nm -D --defined-only "$1" | awk '{print $3}' | sort)

#!/usr/bin/env bash
# Shows which lines of the library's host code (plugin/, and kernels/ without what runs on the device) the tests run.
#
#   scripts/coverage.sh [--least PERCENT] [--html FOLDER] [CTEST ARGUMENT...]
#
#   --least PERCENT  fail if fewer of the lines run (default: 90)
#   --html FOLDER    write the sources with their counts there too: open FOLDER/index.html
#   anything else    goes to ctest in place of the default selection, for example: -L host
#
# Tests that weigh what the library costs are left out: counting costs.
# Builds the preset `coverage` and runs the quick tests that use the library; about half an hour on 2 cores. What a
# process counted that was killed, or left by _exit(), is lost: lines that only it ran show as never run.

# shellcheck source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/setup.sh
. "$source_dir/scripts/lib/setup.sh"
# shellcheck source=lib/build.sh
. "$source_dir/scripts/lib/build.sh"

least=90
html=
selection=()
while (($#)); do
  case $1 in
    --least | --html)
      (($# > 1)) || give_up "$1" "it needs a value" "see $0 --help"
      if [[ $1 == --html ]]; then html=$(realpath -m "$2"); else least=$2; fi
      shift
      ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) selection+=("$1") ;;
  esac
  shift
done
[[ $least =~ ^(100|[0-9]{1,2})$ ]] || give_up "--least $least" "it is no percentage" "give 0 to 100"
((${#selection[@]})) ||
  selection=(-L '^(host|kernels|preload|collectives|integrity|model|traces|faults)$' -LE '^(slow|gpu)$' -E 'cost')

set_up_tools
command -v gcovr >/dev/null || install_debian_packages gcovr
build coverage
find "$build_dir" -name '*.gcda' -delete
say "running the tests (their output: build/log/coverage.log)"
quietly coverage ctest --test-dir "$build_dir" -j "$(nproc)" --output-on-failure --no-tests=error "${selection[@]}" ||
  give_up "a test failed" "ctest said the lines above" "mend it first: run scripts/test.sh"

say "counting"
pages=()
if [[ -n $html ]]; then
  mkdir -p "$html"
  pages=(--html-details "$html/index.html")
fi
cd "$source_dir"
# nvcc leaves a stub of each device function in the host's code, at the line that names it: no host line at all.
gcovr --root . --filter 'plugin/' --filter 'kernels/' --exclude 'kernels/.*\.cuh$' --exclude 'kernels/reference' \
  --exclude-lines-by-pattern '.*__(device|global)__.*' --object-directory "$build_dir" --fail-under-line "$least" \
  --txt - "${pages[@]}" "$build_dir/plugin" "$build_dir/kernels" |
  sed "s/^TOTAL.*/& (least: $least%)/"

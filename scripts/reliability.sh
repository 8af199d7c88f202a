#!/usr/bin/env bash
# Measures what sdp4bit survives, and writes docs/reliability.md: faults, damaged input, load, and the states of the agreement.
#
#   scripts/reliability.sh [--preset NAME] [--only WHAT]... [--quick | --page]
#
#   (nothing)       the long runs: about two and a half hours of 2 idle cores; each test has a limit of its own
#   --only WHAT     of these, a kind (faults, integrity, fuzz, load, agreement) or the test of that name; the page keeps the
#                   other rows (no sample beside its long test), and says of each which commit it was made at
#   --quick         the samples that every run of the tests has, in a few minutes; the page is printed, not written
#   --page          writes the page from docs/reliability/results.json, without running anything
#   --preset NAME   which of CMakePresets.json to build (default: dev)
#
# Figures are kept as soon as their test has passed, so a run that is cut short loses only the rest. Files must be those of a
# commit, which the page names. No GPU is needed. Exit code 1 if anything was found.

# shellcheck source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/setup.sh
. "$source_dir/scripts/lib/setup.sh"
# shellcheck source=lib/build.sh
. "$source_dir/scripts/lib/build.sh"

preset=dev
mode=long
only=()
while (($#)); do
  case $1 in
    --preset)
      (($# > 1)) || give_up "--preset" "it needs a name" "give one of CMakePresets.json, such as dev"
      preset=$2
      shift
      ;;
    --only)
      (($# > 1)) || give_up "--only" "it needs a kind or a test" \
        "give one of faults, integrity, fuzz, load, agreement, or a test's name"
      only+=(--only "$2")
      shift
      ;;
    --quick) mode=quick ;;
    --page) mode=page ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) give_up "the argument $1" "it is none of this script's" "see $0 --help" ;;
  esac
  shift
done

if [[ $mode == page ]]; then exec python3 -B "$source_dir/scripts/reliability" --page; fi
export TEST_TOOLS_REQUIRED=1  # clang's fuzzer is one
set_up_tools
build "$preset"
exec python3 -B "$source_dir/scripts/reliability" "--$mode" --build "$build_dir" "${only[@]}"

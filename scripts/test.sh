#!/usr/bin/env bash
# Builds sdp4bit and runs its tests: on any machine those that need no GPU, and with one also those that do.
#
#   scripts/test.sh [--preset NAME] [--slow] [CTEST ARGUMENT...]
#
#   --preset NAME   which of CMakePresets.json to build (default: dev)
#   --slow          run the long sweeps too
#   --format        install clang-format too: without it the test of the sources' layout is skipped
#   anything else   goes to ctest in place of the default selection, for example: -L host, -R Codec; then nothing is
#                   installed that only some tests need: those that miss it are skipped, and say what it is

# shellcheck source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/setup.sh
. "$source_dir/scripts/lib/setup.sh"
# shellcheck source=lib/build.sh
. "$source_dir/scripts/lib/build.sh"
# shellcheck source=lib/python.sh
. "$source_dir/scripts/lib/python.sh"

preset=dev
excluded='^(gpu|slow)$'
selection=()
while (($#)); do
  case $1 in
    --preset)
      (($# > 1)) || give_up "--preset" "it needs a name" "give one of CMakePresets.json, such as dev or ci"
      preset=$2
      shift
      ;;
    --slow) excluded='^gpu$' ;;
    --format) export CHECK_FORMAT_REQUIRED=1 ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*)
      selection+=("$1")
      # A word after an option of ctest is the option's value.
      if (($# > 1)) && [[ $2 != -* ]]; then
        selection+=("$2")
        shift
      fi
      ;;
    *) give_up "the argument $1" "ctest would ignore it and run everything" "say -L $1 for a label, -R $1 for names" ;;
  esac
  shift
done

if ((${#selection[@]} == 0)); then
  export PLOTS_REQUIRED=1  # tests draw the tool's plots and show its pages in a browser
  export TEST_TOOLS_REQUIRED=1  # they compile for another processor, run that, and make packages
fi
set_up_tools
((${#selection[@]})) || set_up_python torch matplotlib
build "$preset"

# run_tests NAME ARGUMENT...: ctest with its output shown as it goes; adds to passed, failed and skipped.
passed=0
failed=0
skipped=0
run_tests() {
  local log=$log_dir/$1.log counts
  shift
  mkdir -p "$log_dir"
  ctest --test-dir "$build_dir" -j 2 --output-on-failure --no-tests=error "$@" 2>&1 | tee "$log" || true
  counts=$(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log" | tail -1)
  [[ -n $counts ]] || counts="1 1"
  # CTest counts what was skipped as passed, and keeps the reason to itself.
  local skips
  skips=$(grep -c '\*\*\*Skipped' "$log" || true)
  skipped=$((skipped + skips))
  ((skips == 0)) || grep -E '^SKIPPED: ' "$build_dir/Testing/Temporary/LastTest.log" || true
  failed=$((failed + ${counts% *}))
  passed=$((passed + ${counts#* } - ${counts% *} - skips))
}

if ((${#selection[@]})); then
  say "running the tests selected by: ${selection[*]}"
  run_tests selected "${selection[@]}"
else
  say "running the tests that need no GPU"
  run_tests no-gpu -LE "$excluded"
  gpus=$(gpu_count)
  if ((gpus)); then
    say "running the tests for GPUs on $gpus of them"
    run_tests gpu -L '^gpu$'
  else
    say "tests for GPUs skipped: no GPU on this machine"
  fi
fi

say "done; each test's own output: $build_dir/Testing/Temporary/LastTest.log"
((skipped == 0)) || also=", $skipped skipped"
echo "$passed passed, $failed failed${also:-}"
((failed == 0 && passed > 0))

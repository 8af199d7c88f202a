#!/usr/bin/env bash
# Shows what 4-bit communication does to training: a small GPT, trained with NCCL as it is and with the library preloaded.
#
#   scripts/train.sh [--preset NAME] [OPTION...]
#
#   (nothing)       all schemes and ablations, five seeds: 20 minutes on 2 idle cores with AVX-512; goes on where it was interrupted
#   --quick         five schemes, two seeds, few steps: 2 minutes; fails unless it shows what it must
#   --demo          plain and sdp4bit, one seed: half a minute
#   --preset NAME   which of CMakePresets.json to build (default: dev)
#   --help          this, and the options for schemes, seeds, steps and folders
#
# No GPU is needed: the ranks run on the emulated cluster, 2 nodes with 2 GPUs each. Curves, a table and a page are in
# build/training afterwards.

# shellcheck source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/setup.sh
. "$source_dir/scripts/lib/setup.sh"
# shellcheck source=lib/build.sh
. "$source_dir/scripts/lib/build.sh"
# shellcheck source=lib/python.sh
. "$source_dir/scripts/lib/python.sh"

preset=dev
options=()
while (($#)); do
  case $1 in
    --preset)
      (($# > 1)) || give_up "--preset" "it needs a name" "give one of CMakePresets.json, such as dev"
      preset=$2
      shift
      ;;
    -h | --help)
      sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
      python3 "$source_dir/scripts/training" --help
      exit 0
      ;;
    *) options+=("$1") ;;
  esac
  shift
done

set_up_tools
set_up_python torch matplotlib
build "$preset" sdp4bit_sandbox sandbox_nccl
exec "$python" "$source_dir/scripts/training" --build "$build_dir" "${options[@]}"

#!/usr/bin/env bash
# Looks for mistakes in the library's sources without running them: cppcheck, then clang-tidy. The last line says "clean" or not.
#
#   scripts/analyze.sh [--only TOOL] [--build FOLDER] [FILE...]
#
#   --only TOOL      cppcheck, which takes seconds, or clang_tidy, which takes half an hour on 2 cores
#   --build FOLDER   whose compile commands clang-tidy uses (default: that of the preset dev, which is configured if it
#                    is not there)
#   FILE...          clang-tidy looks at these sources only (default: all of plugin/ and kernels/ that the host compiles)
#
# What clang-tidy checks is in .clang-tidy. Exit code 1 if anything was found.

# shellcheck source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/setup.sh
. "$source_dir/scripts/lib/setup.sh"

build_dir=$source_dir/build/dev
tools=(cppcheck clang_tidy)
files=()
while (($#)); do
  case $1 in
    --only)
      [[ ${2:-} == cppcheck || ${2:-} == clang_tidy ]] || give_up "--only ${2:-}" "it is no tool" "say cppcheck or clang_tidy"
      tools=("$2")
      shift
      ;;
    --build)
      (($# > 1)) || give_up "--build" "it needs a folder" "give one that CMake has configured, such as build/dev"
      build_dir=$(realpath -m "$2")
      shift
      ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) give_up "the argument $1" "it is none of this script's" "see $0 --help" ;;
    *)
      [[ -f $1 ]] || give_up "the file $1" "there is none" "name a source, such as plugin/group.cpp"
      files+=("$(realpath --relative-to "$source_dir" "$1")")
      ;;
  esac
  shift
done
cd "$source_dir"
[[ ${#files[@]} == 0 || ${tools[-1]} == clang_tidy ]] ||
  give_up "FILE with --only cppcheck" "cppcheck reads the whole library, in seconds" "leave the files out"

missing=()
for tool in "${tools[@]/_/-}"; do command -v "$tool" >/dev/null || missing+=("$tool"); done
((${#missing[@]} == 0)) || install_debian_packages "${missing[@]}"

found=0
if [[ ${#files[@]} == 0 && ${tools[0]} == cppcheck ]]; then
  say "cppcheck"
  # It does not parse lambdas with template parameters, which load.h and the kernels have, nor knows CUDA's keywords.
  cppcheck --std=c++20 --language=c++ --enable=warning,performance,portability --inline-suppr --quiet -j "$(nproc)" \
    --error-exitcode=1 --suppress=internalAstError:kernels/load.h -D__x86_64__ \
    -D__device__= -D__global__= -D__host__= -D__shared__= -I . -I include plugin kernels include || found=1
fi
if [[ ${tools[-1]} == clang_tidy ]]; then
  if [[ ! -f $build_dir/compile_commands.json ]]; then
    set_up_tools
    quietly configure cmake --preset dev -B "$build_dir" "${toolkit_arguments[@]}" ||
      give_up "the build could not be configured" "CMake said the lines above" "run scripts/test.sh first"
  fi
  ((${#files[@]})) || mapfile -t files < <(find plugin kernels -name '*.cpp' | sort)
  say "clang-tidy on ${#files[@]} sources"
  mkdir -p "$log_dir"  # what clang-tidy says besides findings, of which it counts those it leaves out, is in the log
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p "$build_dir" --quiet --warnings-as-errors='*' \
    2>"$log_dir/clang_tidy.log" || found=1
fi
((found == 0)) || give_up "the sources are not clean" \
  "the tools said the lines above, or could not run (build/log/clang_tidy.log)" \
  "mend them; what is no mistake gets a NOLINT or cppcheck-suppress with its reason"
say "clean"

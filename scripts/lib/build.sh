# Configures and builds one preset.
# Sourced, after common.sh and setup.sh.
# shellcheck shell=bash disable=SC2154

# build PRESET [TARGET...]: leaves the build folder in `build_dir`.
build() {
  local preset=$1 targets=() target
  shift
  build_dir=$source_dir/build/$preset
  for target in "$@"; do targets+=(--target "$target"); done
  say "configuring (preset $preset)"
  # A build folder that was made with another compiler is made anew: CMake cannot change its compiler.
  if [[ -f $build_dir/CMakeCache.txt ]] &&
    [[ $(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$build_dir/CMakeCache.txt") != "${toolkit_arguments[0]#*=}" ]]; then
    rm -rf "$build_dir/CMakeCache.txt" "$build_dir/CMakeFiles"
  fi
  (cd "$source_dir" && quietly configure cmake --preset "$preset" "${toolkit_arguments[@]}") ||
    give_up "the build could not be configured" "CMake said the lines above (all of it: build/log/configure.log)" \
      "remove $build_dir and run this again; if it stays, report those lines"
  say "building in build/$preset with $(nproc) jobs (the first time takes minutes)"
  # Ninja redraws its line on a terminal; elsewhere a line every half minute shows that it goes on.
  if [[ -t 1 ]]; then
    cmake --build "$build_dir" -j "$(nproc)" "${targets[@]}" || build_failed
  else
    show_build_steps &
    local shower=$!
    quietly build cmake --build "$build_dir" -j "$(nproc)" "${targets[@]}" || {
      kill "$shower"
      build_failed
    }
    kill "$shower"
  fi
  say "built"
}

show_build_steps() {
  local step
  # The sleep outlives the kill: it must not hold the script's output open.
  while sleep 30 >/dev/null 2>&1; do
    step=$(grep -oE '^\[[0-9]+/[0-9]+\]' "$log_dir/build.log" 2>/dev/null | tail -1) && say "building: step $step"
  done
}

build_failed() {
  give_up "the build failed" "the compiler said the lines above" "if the source is unchanged, report them"
}

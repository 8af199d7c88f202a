#!/usr/bin/env bash
# Shows what sdp4bit does: one unmodified NCCL program, first as it is, then with the library preloaded; then a small GPT
# that is trained both ways.
#
#   scripts/demo.sh [--preset NAME]
#
# Without GPUs the program runs on an emulated cluster of 2 nodes with 2 GPUs each; with two GPUs or more it runs on
# them, told by NCCL_HOSTID to treat them as two nodes.

. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
. "$source_dir/scripts/lib/setup.sh"
. "$source_dir/scripts/lib/build.sh"
. "$source_dir/scripts/lib/python.sh"

preset=dev
while (($#)); do
  case $1 in
    --preset)
      (($# > 1)) || give_up "--preset" "it needs a name" "give one of CMakePresets.json, such as dev"
      preset=$2
      shift
      ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) give_up "the argument $1" "demo.sh knows --preset and --help only" "leave it out" ;;
  esac
  shift
done

set_up_tools
gpus=$(gpu_count)
if ((gpus >= 2)); then
  build "$preset" sdp4bit collectives_gpu
  program=$build_dir/bin/collectives
  library=$build_dir/lib/libsdp4bit.so
  [[ -x $program ]] || give_up "the measuring program for GPUs" "no libnccl or static CUDA runtime was found" \
    "install NCCL's development files, or remove $toolkit_dir and hide nvcc to get NVIDIA's wheels"
  ranks_per_node=$((gpus >= 4 ? 2 : 1))
  say "this machine has $gpus GPUs: running on $((2 * ranks_per_node)) of them as 2 nodes"
else
  build "$preset" sdp4bit sdp4bit_sandbox collectives_sandbox  # the first for `tools/sdp4bit`
  program=$build_dir/sandbox/bin/collectives
  library=$build_dir/sandbox/lib/libsdp4bit.so
  ranks_per_node=2
  say "fewer than two GPUs here: running on the emulated cluster, 2 nodes with 2 GPUs each, on this machine's CPU"
fi

demo_dir=$source_dir/build/demo
mkdir -p "$demo_dir"
cluster=(--nodes 2 -g "$ranks_per_node")
# shellcheck disable=SC2034,SC2054  # used by name in measure; the commas belong to the program
gradients=(reduce_scatter -b 4M -d bfloat16,float -o sum,avg -w 6 -n 4)
# A weight's difference is sent once the library has seen that the buffer comes again: eight calls and some more.
# shellcheck disable=SC2034
weights=(all_gather -b 4M -d bfloat16 -w 40 -n 4)

# measure NAME [VARIABLE=VALUE...]: runs the program for gradients, then for weights; the tables go to the screen and
# to NAME.txt, what is said on stderr to NAME.log.
measure() {
  local name=$1 part
  shift
  : >"$demo_dir/$name.txt"
  : >"$demo_dir/$name.log"
  for part in gradients weights; do
    local -n arguments=$part
    env "$@" timeout 300 "$program" "${arguments[@]}" "${cluster[@]}" 2>>"$demo_dir/$name.log" |
      tee -a "$demo_dir/$name.txt" | { if [[ $part == weights ]]; then grep -v '^#'; else cat; fi; } || {
      tail -n 20 "$demo_dir/$name.log" >&2
      give_up "the $name run" "the program said the lines above" "if the source is unchanged, report them"
    }
  done
}

echo
say "1. as it is: ${program#"$source_dir/"} ${gradients[*]} ${cluster[*]}"
measure native
echo
say "2. the same program with LD_PRELOAD=${library#"$source_dir/"}"
measure preloaded LD_PRELOAD="$library"
echo
echo "The library's first line (all of them: build/demo/preloaded.log):"
grep -m 1 '^sdp4bit' "$demo_dir/preloaded.log" ||
  give_up "the library's log line" "the preloaded run wrote none" "look at build/demo/preloaded.log"

# Rows of both tables side by side. Columns as the program prints them: 1 collective, 4 type, 5 operation, 7 time,
# 11 bytes between nodes, 12 bits between nodes, 13 relative error, 15 equal on all ranks.
echo
rows=$(paste -d ' ' <(grep -v '^#' "$demo_dir/native.txt") <(grep -v '^#' "$demo_dir/preloaded.txt"))
if [[ $(awk 'NR == 1 { print $11 }' <<<"$rows") == - ]]; then
  echo "What changed (NVIDIA's NCCL does not count bytes; microseconds a call):"
  awk '
    BEGIN { printf "%-14s %-9s %-4s  %22s  %22s\n", "", "", "", "time", "relative error" }
    { printf "%-14s %-9s %-4s  %9s -> %-9s  %9s -> %-9s\n", $1, $4, $5, $7, $22, $13, $28 }' <<<"$rows"
else
  echo "What changed (bits per element and other node; bytes that a rank sends to other nodes in a call):"
  awk '
    BEGIN { printf "%-14s %-9s %-4s  %20s  %33s  %22s\n", "", "", "", "bits between nodes", "bytes between nodes",
            "relative error" }
    { fewer = $26 > 0 ? sprintf("(%.1f x fewer)", $11 / $26) : ""
      printf "%-14s %-9s %-4s  %8s -> %-8s  %8s -> %-7s %14s  %9s -> %-9s\n", $1, $4, $5, $12, $27, $11, $26, fewer,
             $13, $28 }' <<<"$rows"
fi
if grep -v '^#' "$demo_dir/preloaded.txt" | awk '$15 == "NO" { found = 1 } END { exit !found }'; then
  echo "The gathered weights are NOT the same on all ranks."
else
  echo "The gathered weights are the same, bit for bit, on every rank."
fi

# The training runs on the emulated cluster, whatever the machine has: its text, model and comparison are the same everywhere.
echo
say "3. a small GPT, trained both ways on the emulated cluster: scripts/train.sh --demo"
python_log=$log_dir/demo-python.log
mkdir -p "$log_dir"
# In a shell of its own, for all that comes before is shown already: where torch cannot be had the demo goes on without.
if find_python torch matplotlib || { (set_up_python torch matplotlib 2>"$python_log") && find_python torch matplotlib; }; then
  build "$preset" sdp4bit_sandbox sandbox_nccl
  "$python" "$source_dir/scripts/training" --demo --fresh --build "$build_dir" ||
    give_up "the training" "the program said the lines above" "if the source is unchanged, report them"
else
  echo "Left out: it needs a python3 with torch and matplotlib (Debian: python3-torch, python3-matplotlib), which could not"
  echo "be had here; why is in ${python_log#"$source_dir/"}."
fi

echo
echo "Try next:"
echo "  see every decision         LD_PRELOAD=${library#"$source_dir/"} SDP4BIT_LOG=trace \\"
echo "                               ${program#"$source_dir/"} reduce_scatter -b 4M ${cluster[*]}"
echo "  switch it off              the same with SDP4BIT_ENABLE=0: the results are NCCL's own, bit for bit"
echo "  other shapes and sizes     ${program#"$source_dir/"} --help"
echo "  all options                tools/sdp4bit options"
echo "  your own program           export LD_PRELOAD=/path/to/libsdp4bit.so  (README.md, 'Use it')"
echo "  all schemes, five seeds    scripts/train.sh   (20 minutes on 2 idle cores with AVX-512)"
echo "  the tests                  scripts/test.sh"
say "done"

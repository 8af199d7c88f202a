#!/usr/bin/env bash
# usage: run_pytorch_example.sh SOURCE_DIR: the line of examples/02_pytorch/README.md for CPUs, and what the examples of
# Python say when they are started wrongly.
set -euo pipefail
cd "$1"
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
refuses() {
  local said
  if said=$("$@" 2>&1); then echo "taken: $*"; exit 1; fi
  [[ $(wc -l <<<"$said") == 1 ]] || { echo "not one line: $said"; exit 1; }
}
refuses env -u RANK python3 examples/02_pytorch/train.py
refuses python3 examples/06_deepspeed/train.py --config nowhere.json

python=/usr/bin/python3
if ! "$python" -c 'import torch.distributed' 2>/dev/null; then
  echo "SKIPPED: $python has no torch: install python3-torch"
  exit 77
fi
# In CI other tests may have the page's port.
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
lines=$(sed -n '/^export WORLD_SIZE/,/^```/p' examples/02_pytorch/README.md | sed "/^\`/d; s/MASTER_PORT=[0-9]*/MASTER_PORT=$port/")
said=$(bash -euc "$lines" 2>&1) || { echo "$said"; exit 1; }
losses=$(sed -n 's/^step [0-9]*: loss \([0-9.]*\),.*/\1/p' <<<"$said")
[[ $(wc -l <<<"$losses") == 2 ]] || { echo "$said"; exit 1; }
awk 'NR == 1 { first = $1 } END { exit !($1 < first) }' <<<"$losses" || { echo "the loss did not fall: $losses"; exit 1; }
echo "it trains"

#!/usr/bin/env bash
# Megatron-LM's own pretrain_gpt.py on mock data, a GPT of 1.3 billion parameters, with the library preloaded.
#
#   MEGATRON=/path/to/Megatron-LM NODES=2 HEAD=node0 SDP4BIT=/path/to/libsdp4bit.so examples/03_megatron/pretrain.sh [FLAG...]
#
# Run it on each node. Further flags go to pretrain_gpt.py (--tensor-model-parallel-size 2, ...).
set -euo pipefail
: "${MEGATRON:?the folder of Megatron-LM}" "${NODES:?the number of nodes}" "${HEAD:?the host name of the first node}"
[[ -f $MEGATRON/pretrain_gpt.py ]] || { echo "there is no pretrain_gpt.py in $MEGATRON: set MEGATRON" >&2; exit 2; }
[[ -z ${SDP4BIT:-} || -f $SDP4BIT ]] || { echo "there is no library $SDP4BIT: set SDP4BIT, or leave it out" >&2; exit 2; }

# Gradients are reduced in fp32, Megatron's default: --grad-reduce-in-bf16 would halve what can be saved.
parallel=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
model=(--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --bf16)
data=(--mock-data --tokenizer-type NullTokenizer --vocab-size 50304 --split '99,1,0')
training=(--micro-batch-size 2 --global-batch-size 256 --train-iters 200 --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine
  --weight-decay 0.1 --clip-grad 1.0 --log-interval 10 --eval-iters 0 --log-throughput)

export CUDA_DEVICE_MAX_CONNECTIONS=1
if [[ -n ${SDP4BIT:-} ]]; then export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$SDP4BIT"; fi
exec torchrun --nnodes "$NODES" --nproc-per-node "${GPUS:-8}" --rdzv-backend c10d --rdzv-endpoint "$HEAD:${PORT:-29500}" \
  "$MEGATRON/pretrain_gpt.py" "${parallel[@]}" "${model[@]}" "${data[@]}" "${training[@]}" "$@"

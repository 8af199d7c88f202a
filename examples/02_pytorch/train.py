#!/usr/bin/env python3
"""Trains a small transformer with FSDP2, FSDP or DDP under torchrun; it knows nothing of sdp4bit."""

from __future__ import annotations

import argparse
import os
import sys
import time

PARALLEL = ("fsdp2", "fsdp", "ddp")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parallel", choices=PARALLEL, default="fsdp2", help="how the model is spread (%(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: by gloo, to try the script")
    parser.add_argument("--reduce", choices=("fp32", "bf16"), default="fp32", help="type of gradients on the wire")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--length", type=int, default=256, help="tokens of a sequence (%(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="sequences of a rank and step (%(default)s)")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


options = parse()
if "RANK" not in os.environ:
    sys.exit("train.py is one rank of a job: start it by torchrun, as its README says")
try:
    import torch
    from torch import nn
    import torch.distributed as dist
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"train.py needs PyTorch: {error}; install torch, or use the Python that has it")

VOCABULARY = 64


class Model(nn.Module):
    """Tokens in, the loss of predicting each next one out."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        heads = max(1, width // 64)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens[:, :-1])
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        for block in self.blocks:
            x = block(x, src_mask=later)
        return F.cross_entropy(self.head(x).float().flatten(0, 1), tokens[:, 1:].flatten())


def spread(model: nn.Module, device: torch.device) -> nn.Module:
    """The model, over all ranks of the job."""
    reduce_type = torch.float32 if options.reduce == "fp32" else torch.bfloat16
    if options.parallel == "fsdp2":
        try:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        except ImportError:
            sys.exit(f"torch {torch.__version__} has no FSDP2 (from 2.6 on): take --parallel fsdp or ddp")
        # The dimension's name becomes the communicator's, in releases of PyTorch that name communicators.
        mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("dp_shard",))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce_type)
        for block in model.blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        return fully_shard(model, mesh=mesh, mp_policy=policy)
    if options.parallel == "fsdp":
        import functools

        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
        from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

        wrap = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer})
        precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=reduce_type)
        return FullyShardedDataParallel(model, auto_wrap_policy=wrap, mixed_precision=precision, device_id=device)
    return nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)


def tokens_of(step: int, rank: int, device: torch.device) -> torch.Tensor:
    """Sequences in which each token mostly follows from the one before: a function of seed, step and rank."""
    draw = torch.Generator().manual_seed((options.seed * 1_000_003 + step) * 10_007 + rank)
    shape = (options.batch, options.length + 1)
    noise = torch.randint(0, VOCABULARY, shape, generator=draw)
    keep = torch.rand(shape, generator=draw) < 0.9
    sequence = noise.clone()
    for place in range(1, shape[1]):
        sequence[:, place] = torch.where(keep[:, place], (sequence[:, place - 1] * 5 + 3) % VOCABULARY, noise[:, place])
    return sequence.to(device)


def main() -> None:
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no GPU is visible to this rank; --device cpu tries the script without one")
    device = torch.device("cuda", local) if options.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(options.seed)
    model = spread(Model(options.layers, options.width).to(device), device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    if rank == 0:
        print(f"{dist.get_world_size()} ranks, {options.parallel}, torch {torch.__version__}", flush=True)
    start = time.perf_counter()
    for step in range(1, options.steps + 1):
        loss = model(tokens_of(step, rank, device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step == options.steps:
            mean = loss.detach().float()
            dist.all_reduce(mean)  # also waits for the step
            if rank == 0:
                took = (time.perf_counter() - start) / (step - (step - 1) // 10 * 10)
                print(f"step {step}: loss {mean.item() / dist.get_world_size():.4f}, {took:.3f} s a step", flush=True)
            start = time.perf_counter()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

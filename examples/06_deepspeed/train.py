#!/usr/bin/env python3
"""Trains a stack of layers with DeepSpeed, in the ZeRO stage that a configuration says; it knows nothing of sdp4bit."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=pathlib.Path, default=HERE / "zero1.json", help="DeepSpeed's (%(default)s)")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--local_rank", type=int, default=-1, help="given by DeepSpeed's launcher")
    return parser.parse_args()


def read_config(path: pathlib.Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        sys.exit(f"train.py cannot read {path}: {error.strerror}; name a file with --config")
    except ValueError as error:
        sys.exit(f"train.py: {path} is no JSON: {error}")


options = parse()
config = read_config(options.config)
try:
    import deepspeed
    import torch
    from torch import nn
except ImportError as error:
    sys.exit(f"train.py needs DeepSpeed and PyTorch: {error}; pip install deepspeed")


def main() -> None:
    deepspeed.init_distributed()
    rank = torch.distributed.get_rank()
    torch.manual_seed(1)
    layers = [nn.Sequential(nn.Linear(options.width, options.width), nn.GELU()) for _ in range(options.layers)]
    model = nn.Sequential(*layers, nn.Linear(options.width, 1))
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    target = torch.randn(options.width, generator=torch.Generator().manual_seed(2))
    draw = torch.Generator().manual_seed(3 + rank)
    for step in range(1, options.steps + 1):
        x = torch.randn(engine.train_micro_batch_size_per_gpu(), options.width, generator=draw)
        y = torch.tanh(x @ target / options.width**0.5)
        x, y = x.to(engine.device, torch.bfloat16), y.to(engine.device)
        loss = nn.functional.mse_loss(engine(x).float().squeeze(1), y)
        engine.backward(loss)
        engine.step()
        if rank == 0 and (step % 10 == 0 or step == options.steps):
            print(f"step {step}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()

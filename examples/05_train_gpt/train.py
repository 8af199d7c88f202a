#!/usr/bin/env python3
"""One rank of the training: started by ranks.py on an emulated cluster, by torchrun on GPUs."""
from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("train.py: this Python has no torch: apt-get install python3-torch and use /usr/bin/python3, or pip install torch")

from data import Data
from model import Gpt, Shape
from optimizer import learning_rate
from snapshots import Snapshots
from text import ALPHABET
from transport import Unavailable, open_transport
from zero1 import Zero1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--steps", type=int, default=300)
    add("--seed", type=int, default=1, help="of the first weights and of the data's order")
    add("--batch", type=int, default=8, help="sequences of a rank and step")
    add("--peak-rate", type=float, default=3e-3)
    add("--warmup", type=int, default=20)
    add("--decay", type=float, default=0.1)
    add("--clip", type=float, default=1.0, help="largest norm of a gradient")
    add("--buckets", type=int, default=2)
    add("--gradients", choices=("bf16", "fp32"), default="bf16", help="type in which they are reduced")
    add("--compute", choices=("auto", "bf16", "fp32"), default="auto", help="of matrix products; auto: bf16 if it is fast")
    add("--transport", choices=("auto", "ctypes", "torch"), default="auto")
    add("--rotate-data", type=int, default=0, metavar="K", help="rank r takes rank r + K's data: only the order of sums differs")
    add("--evaluate-every", type=int, default=20, metavar="STEPS")
    add("--validation", type=int, default=96, help="sequences of an evaluation but the last, which takes all")
    add("--snapshots", type=Path, metavar="DIR", help="write gradients and weight differences as .npy")
    add("--snapshot-every", type=int, default=50, metavar="STEPS")
    add("--out", type=Path, required=True, metavar="DIR", help="for rank<r>.json")
    arguments = parser.parse_args()
    if min(arguments.steps, arguments.batch, arguments.evaluate_every, arguments.snapshot_every, arguments.buckets) < 1:
        parser.error("steps, batch, buckets and periods must be at least 1")
    return arguments


def computes_in_bf16(choice: str, device: torch.device) -> bool:
    """On a CPU without AVX-512 torch multiplies bf16 matrices element by element."""
    if choice != "auto" or device.type == "cuda":
        return choice != "fp32"
    try:
        return {"avx512bw", "avx512vl", "avx512dq"} <= set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return False


class Training:
    """The loop, and what it remembers for the curves."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        self.transport = open_transport(arguments.transport)
        self.bf16 = computes_in_bf16(arguments.compute, self.transport.compute)
        torch.manual_seed(arguments.seed)  # the same first weights on every rank
        self.model = Gpt(Shape(letters=len(ALPHABET))).to(self.transport.compute)
        self.data = Data(self.model.shape.context, self.transport.compute)
        gradients = torch.bfloat16 if arguments.gradients == "bf16" else torch.float32
        self.state = Zero1(self.model, self.transport, arguments.buckets, gradients, arguments.decay)
        self.snapshots = None
        if arguments.snapshots is not None:
            self.snapshots = Snapshots(arguments.snapshots, arguments.snapshot_every, self.transport.rank)
        self.curve: list[dict[str, object]] = []
        self.weights = [self.state.weights_hash()]
        """After each step: all ranks should list the same."""

    def loss(self, sequences: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        with torch.autocast(self.transport.compute.type, dtype=torch.bfloat16, enabled=self.bf16):
            return self.model.loss(sequences, reduction)

    def run(self) -> None:
        arguments, transport = self.arguments, self.transport
        place = (transport.rank + arguments.rotate_data) % transport.world
        started, losses = time.monotonic(), []
        self.evaluate(0, losses)
        for step in range(arguments.steps):
            loss = self.loss(self.data.batch(arguments.seed, step, place, arguments.batch))
            loss.backward()
            losses.append(float(loss.detach()))
            rate = learning_rate(step, arguments.steps, arguments.peak_rate, arguments.warmup)
            self.state.step(rate, arguments.clip, step, self.snapshots)
            self.weights.append(self.state.weights_hash())
            if (step + 1) % arguments.evaluate_every == 0 or step + 1 == arguments.steps:
                self.evaluate(step + 1, losses)
                self.tell(started)
                losses = []

    @torch.no_grad()
    def evaluate(self, step: int, losses: list[float]) -> None:
        """Validation loss of the weights that were gathered; each rank computes its part."""
        transport = self.transport
        sequences = 0 if step == self.arguments.steps else self.arguments.validation
        part = self.data.validation_part(transport.rank, transport.world, sequences)
        lost = sum(float(self.loss(some, "sum")) for some in part.split(32))
        lost, letters, trained, batches = transport.all_reduce(
            [lost, part.shape[0] * self.model.shape.context, sum(losses), len(losses)]
        )
        self.curve.append(
            {
                "step": step,
                "validation": lost / letters,
                "training": trained / batches if batches else None,
            }
        )

    def tell(self, started: float) -> None:
        if self.transport.rank != 0:
            return
        last = self.curve[-1]
        pace = (time.monotonic() - started) / int(str(last["step"]))
        print(
            f"step {last['step']:>4}/{self.arguments.steps}: training {last['training']:.4f}, "
            f"validation {last['validation']:.4f}, {pace:.2f} s a step",
            flush=True,
        )

    def write(self) -> None:
        transport, arguments = self.transport, self.arguments
        result = {
            "rank": transport.rank,
            "curve": self.curve,
            "weights": self.weights,
            "traffic": transport.traffic(),
            "settings": {
                **{name: value for name, value in vars(arguments).items() if not isinstance(value, Path) and value is not None},
                "ranks": transport.world,
                "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
                "bucket_shards": [bucket.shard for bucket in self.state.layout.buckets],
                "matrix_products": "bf16" if self.bf16 else "fp32",
            },
            "versions": {"torch": torch.__version__, "python": sys.version.split()[0], **transport.versions()},
            "cpu_seconds": time.process_time(),
        }
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / f"rank{transport.rank}.json").write_text(json.dumps(result, indent=1) + "\n")
        print(f"rank {transport.rank}: weights {self.weights[-1]} at the end", flush=True)


def main() -> int:
    try:
        training = Training(parse_arguments())
        training.run()
        training.write()
        training.transport.close()
    except (Unavailable, OSError, FloatingPointError, RuntimeError) as error:
        print(f"train.py, rank {os.environ.get('RANK', '?')}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

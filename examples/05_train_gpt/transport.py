"""What the training needs of a cluster: buffers on the device and four collectives; two implementations offer it."""
from __future__ import annotations

import os
from typing import Optional, Protocol, Sequence

import torch


class Unavailable(Exception):
    """The cluster cannot be had; the text says why and what to do."""


class Buffer(Protocol):
    """Memory on the device that stays where it is, as a framework's flat buffers do."""

    def store(self, start: int, values: torch.Tensor) -> None:
        """Rounds `values` to the buffer's type and puts them at element `start`."""

    def load(self, part: slice) -> torch.Tensor:
        """The elements of `part` in fp32, on the device that computes."""


class Transport(Protocol):
    rank: int
    world: int
    compute: torch.device

    def buffer(self, elements: int, dtype: torch.dtype) -> Buffer: ...

    def reduce_scatter(self, buffer: Buffer, start: int, shard: int) -> None:
        """Averages `world` shards from element `start` on; the result of shard r replaces it on rank r, in place."""

    def all_gather(self, buffer: Buffer, start: int, shard: int) -> None:
        """Every rank's own shard goes to all others, in place."""

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """Sums of a few numbers over all ranks."""

    def traffic(self) -> Optional[dict[str, int]]:
        """Bytes that this rank has sent in its node and between nodes, where something counts them."""

    def versions(self) -> dict[str, str]: ...

    def close(self) -> None: ...


def number_from(name: str) -> int:
    """A variable that launchers set."""
    text = os.environ.get(name, "")
    if not text.isdigit():
        raise Unavailable(
            f"the variable {name} is {text!r}, not a number: start the ranks by torchrun, or by ranks.py beside this file"
        )
    return int(text)


def open_transport(kind: str) -> Transport:
    """`ctypes`: NCCL and CUDA's runtime called directly; `torch`: torch.distributed; `auto`: `torch` if it has GPUs."""
    if kind == "auto":
        kind = "torch" if torch.cuda.is_available() else "ctypes"
    if kind == "torch":
        from torch_transport import TorchTransport

        return TorchTransport()
    from ctypes_transport import CtypesTransport

    return CtypesTransport()

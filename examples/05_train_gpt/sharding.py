"""Where each parameter lies: flat buffers cut into buckets, buckets cut into one shard for each rank (ZeRO-1)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

ALIGNMENT = 128
"""A shard is a multiple of this many elements, as in Megatron-LM: padding is at a bucket's end."""


@dataclass(frozen=True)
class Bucket:
    """Elements [start, start + world * shard) of the flat buffers; rank r owns the r-th `shard` of them."""

    start: int
    shard: int
    world: int

    @property
    def end(self) -> int:
        return self.start + self.shard * self.world

    def own(self, rank: int) -> slice:
        """The shard of a rank, as a slice of the flat buffers."""
        first = self.start + rank * self.shard
        return slice(first, first + self.shard)


@dataclass(frozen=True)
class Layout:
    """Buckets in order, and the slice of each parameter; parameters do not cross buckets."""

    buckets: tuple[Bucket, ...]
    parameters: tuple[slice, ...]

    @property
    def elements(self) -> int:
        return self.buckets[-1].end

    def own_elements(self) -> int:
        """Elements that one rank owns; the same for all ranks."""
        return sum(bucket.shard for bucket in self.buckets)


def lay_out(sizes: Sequence[int], world: int, buckets: int) -> Layout:
    """Places parameters of these sizes, in order, into at most `buckets` buckets of about equal size."""
    if not sizes or min(sizes) < 1 or world < 1 or buckets < 1:
        raise ValueError("sizes, world and buckets must be positive")
    target = sum(sizes) / buckets
    placed: list[slice] = []
    made: list[Bucket] = []
    start = end = 0
    unit = ALIGNMENT * world
    for place, size in enumerate(sizes):
        placed.append(slice(end, end + size))
        end += size
        last = place + 1 == len(sizes)
        if last or (end - start >= target and len(made) + 1 < buckets):
            shard = -(-(end - start) // unit) * ALIGNMENT
            made.append(Bucket(start, shard, world))
            start = end = made[-1].end
    return Layout(tuple(made), tuple(placed))

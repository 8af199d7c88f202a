"""What a kernel may cost in machine code of compute capability 9.0: instructions an element within the loop over tiles.

A bound is what was reached, and only goes down; `goal` is where it should go. Rows are those of `kernels --list`.
"""

from __future__ import annotations

from typing import NamedTuple, Optional


class Bound(NamedTuple):
    row: str
    per_element: float
    goal: Optional[float] = None
    entry: float = 4.8  # instructions an element outside of the loop, where a thread block has one tile
    wide_share: float = 0.90  # of the bytes that the loop moves: those in accesses of 16 bytes


BOUNDS = (
    Bound("quantize bf16 -> int4-sr g128 fp32", 14.8, 15),
    Bound("quantize bf16 -> int8-sr g128 fp32", 14.9, 15),
    Bound("quantize bf16 -> dither4 g64 bf16", 13.6, 15),
    Bound("quantize bf16 -> int8-sr g64 bf16", 13.6, 15),
    Bound("quantize bf16 -> dither8 g64 bf16", 14.8, 15),
    Bound("reduce_requantize int8-sr g64 bf16 -> dither4 g64 bf16, L=2", 18.1, 15),
    Bound("reduce_requantize int8-sr g64 bf16 -> dither4 g64 bf16, L=4", 26.8, 20),
    Bound("reduce_requantize int8-sr g64 bf16 -> dither4 g64 bf16, L=8", 42.1, 30),
    Bound("reduce_requantize int8-sr g128 fp32 -> int4-sr g128 fp32, L=2", 24.7, 15),
    Bound("reduce_requantize int8-sr g128 fp32 -> int4-sr g128 fp32, L=4", 33.2, 20),
    Bound("reduce_requantize int8-sr g128 fp32 -> int4-sr g128 fp32, L=8", 52.4, 30),
    Bound("reduce_finish dither4 g64 bf16 -> bf16, messages=1", 15.1, 6),
    Bound("reduce_finish dither4 g64 bf16 -> bf16, messages=4", 32.9, 15),
    Bound("reduce_finish dither4 g64 bf16 -> bf16, messages=8", 56.2, 26),
    Bound("reduce_finish int4-sr g128 fp32 -> bf16, messages=1", 17.3, 6),
    Bound("reduce_finish int4-sr g128 fp32 -> bf16, messages=4", 37.4, 15),
    Bound("reduce_finish int4-sr g128 fp32 -> bf16, messages=8", 65.6, 26),
    Bound("difference bf16 -> compand4 g1024 bf16", 8, 8),
    Bound("difference bf16 -> compand4 g1024 bf16, staged", 8.4, 8),
    Bound("difference bf16 -> int4 g2048 fp32", 34.9, 8),
    Bound("apply compand4 g1024 bf16 -> bf16", 3.9, 5),
    Bound("apply compand4 g1024 bf16 -> bf16, staged", 3.9, 5),
    Bound("apply int4 g2048 fp32 -> bf16", 15.5, 5),
    Bound("scatter bf16", 1),
)

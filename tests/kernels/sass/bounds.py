"""What a kernel may cost in machine code of compute capability 9.0: instructions an element within the loop over tiles.

A bound is what was reached, and only goes down; `goal` is where it should go. Rows are those of `kernels --list`.
"""

from __future__ import annotations

from typing import NamedTuple, Optional


class Bound(NamedTuple):
    row: str
    per_element: float
    goal: Optional[float] = None
    entry: float = 5.2  # instructions an element outside of the loop, where a thread block has one tile
    wide_share: float = 0.90  # of the bytes that the loop moves: those in accesses of 16 bytes


BOUNDS = (
    Bound("quantize bf16 -> int4-sr g128 fp32", 15.2, 15),
    Bound("quantize bf16 -> int8-sr g128 fp32", 15.6, 15),
    Bound("quantize bf16 -> dither4 g64 bf16", 14.1, 15),
    Bound("quantize bf16 -> int8-sr g64 bf16", 14.2, 15),
    Bound("quantize bf16 -> dither8 g64 bf16", 15.6, 15),
    Bound("reduce_requantize int8-sr g64 bf16 -> dither4 g64 bf16, L=2", 19.1, 15),
    Bound("reduce_requantize int8-sr g64 bf16 -> dither4 g64 bf16, L=4", 29, 20),
    Bound("reduce_requantize int8-sr g64 bf16 -> dither4 g64 bf16, L=8", 44.7, 30),
    Bound("reduce_requantize int8-sr g128 fp32 -> int4-sr g128 fp32, L=2", 25.8, 15),
    Bound("reduce_requantize int8-sr g128 fp32 -> int4-sr g128 fp32, L=4", 36.7, 20),
    Bound("reduce_requantize int8-sr g128 fp32 -> int4-sr g128 fp32, L=8", 56, 30),
    Bound("reduce_finish dither4 g64 bf16 -> bf16, messages=1", 18, 6),
    Bound("reduce_finish dither4 g64 bf16 -> bf16, messages=4", 40.5, 15),
    Bound("reduce_finish dither4 g64 bf16 -> bf16, messages=8", 67.7, 26),
    Bound("reduce_finish int4-sr g128 fp32 -> bf16, messages=1", 19.2, 6),
    Bound("reduce_finish int4-sr g128 fp32 -> bf16, messages=4", 41.8, 15),
    Bound("reduce_finish int4-sr g128 fp32 -> bf16, messages=8", 70.2, 26),
    Bound("difference bf16 -> compand4 g1024 bf16", 8, 8),
    Bound("difference bf16 -> compand4 g1024 bf16, staged", 8.4, 8),
    Bound("difference bf16 -> int4 g2048 fp32", 36, 8),
    Bound("apply compand4 g1024 bf16 -> bf16", 3.9, 5),
    Bound("apply compand4 g1024 bf16 -> bf16, staged", 3.9, 5),
    Bound("apply int4 g2048 fp32 -> bf16", 18.2, 5),
    Bound("scatter bf16", 2.4),
)

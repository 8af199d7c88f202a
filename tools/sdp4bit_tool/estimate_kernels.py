"""What the library's kernels cost a rank: bytes and instructions an element, and the time of them on a GPU.

The numbers were counted by running the kernels on the emulated GPU (SANDBOX_COUNTERS=1), aligned data, default codecs;
tests/tools/test_estimate_kernels.py counts them again. docs/estimate.md explains them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict

CODED_4 = 4.25 / 8  # bytes an element on the wire: groups of 64 with a bf16 scale
CODED_8 = 8.25 / 8
CODED_DIFFERENCE = 4 / 8 + 2 / 1024  # groups of 1024, likewise
RECEIVED_4 = 0.57  # bytes read an element of a received message: each thread reads its scale
RECEIVED_8 = 1.065
QUANTIZE_4, QUANTIZE_8 = 21.4, 20.9  # instructions an element that is coded
ADD_4, ADD_8 = 9.2, 5.1  # instructions an element of a received message
WEIGHT_BYTES = 2


@dataclass(frozen=True)
class Gpu:
    """Data-sheet numbers: bytes a second of the memory, and lane-instructions a second of all its schedulers."""

    memory: float
    instructions: float


GPUS: Dict[str, Gpu] = {
    "a100-40": Gpu(1.555e12, 108 * 4 * 32 * 1.41e9),
    "a100": Gpu(2.039e12, 108 * 4 * 32 * 1.41e9),
    "h100": Gpu(3.35e12, 132 * 4 * 32 * 1.755e9),
    "h800": Gpu(3.35e12, 132 * 4 * 32 * 1.755e9),
    "h200": Gpu(4.8e12, 132 * 4 * 32 * 1.755e9),
    "b200": Gpu(8.0e12, 148 * 4 * 32 * 1.85e9),
}
REACHED = 0.8  # of the data sheet, by kernels that stream


@dataclass
class Cost:
    """Of one kernel in one call of a rank."""

    bytes: float = 0.0
    instructions: float = 0.0

    def seconds(self, gpu: Gpu) -> float:
        """Limited by memory or by the schedulers, whichever takes longer."""
        return max(self.bytes / gpu.memory, self.instructions / gpu.instructions) / REACHED


def gradient_kernels(elements: float, element_bytes: float, nodes: int, local: int) -> Dict[str, Cost]:
    """A ReduceScatter of `elements` on nodes x local ranks."""
    ranks = nodes * local
    segment = elements / ranks
    if nodes == 1 or local == 1:
        coded, received, encode, add = (
            (CODED_8, RECEIVED_8, QUANTIZE_8, ADD_8) if nodes == 1 else (CODED_4, RECEIVED_4, QUANTIZE_4, ADD_4)
        )
        others = ranks - 1
        return {
            "quantize": Cost(segment * others * (element_bytes + coded), segment * others * encode),
            "reduce_finish": Cost(segment * (2 * element_bytes + received * others), segment * (20.2 + add * others)),
        }
    sent = segment * nodes * (local - 1)
    stored = (nodes - 1) / nodes * CODED_4 + 4 / nodes
    return {
        "quantize": Cost(sent * (element_bytes + CODED_8), sent * QUANTIZE_8),
        "reduce_requantize": Cost(
            segment * nodes * (element_bytes + RECEIVED_8 * (local - 1) + stored),
            segment * nodes * (13.8 + ADD_8 * (local - 1) + 10.6 * (nodes - 1) / nodes),
        ),
        "reduce_finish": Cost(
            segment * (4 + RECEIVED_4 * (nodes - 1) + element_bytes), segment * (14.0 + ADD_4 * (nodes - 1))
        ),
    }


def weight_kernels(elements: float, nodes: int, local: int) -> Dict[str, Cost]:
    """An AllGather of `elements` bf16 weights that travels as differences, SDP4BIT_WEIGHT_LEDGER=node."""
    shard = elements / (nodes * local)
    staged = WEIGHT_BYTES if local > 1 else 0  # a copy in the workspace, for the ranks of the node
    costs = {
        "encode_companded": Cost(shard * (6.51 + staged), shard * (14.5 if local > 1 else 14.2)),
        "add_companded": Cost(shard * (nodes - 1) * (6.57 + staged), shard * (nodes - 1) * 8.8),
    }
    if local > 1:
        passed = shard * nodes * (local - 1)
        costs["scatter_shards"] = Cost(passed * 4.13, passed * 4.3)
    return costs


def seconds(costs: Dict[str, Cost], gpu: Gpu) -> float:
    """One after the other, as on a stream."""
    return sum(cost.seconds(gpu) for cost in costs.values())

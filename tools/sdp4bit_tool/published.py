"""The throughput that the authors of SDP4Bit published, and how far the model of `sdp4bit estimate` is from it.

TFLOP/s per GPU from their paper (arXiv 2410.15526); shapes, sequence length and micro batch from the scripts that they
published with it (github.com/jindajia/SDP4Bit). One number is fitted for each cluster, on one of its rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Dict, List, Tuple

from .estimate_kernels import GPUS
from .estimate_model import Cluster, Training, compute_of, phases, step

SEQUENCE = 2048
VOCABULARY = 50304
FITTED = "6.7B"


@dataclass(frozen=True)
class Model:
    """A GPT: layers and width."""

    layers: int
    width: int

    @property
    def parameters(self) -> float:
        return 12 * self.layers * self.width**2 * (1 + 13 / (12 * self.width)) + (VOCABULARY + SEQUENCE) * self.width

    @property
    def flops(self) -> float:
        """Of a sequence, forward and backward, as Megatron-LM counts them."""
        return (
            72
            * SEQUENCE
            * self.layers
            * self.width**2
            * (1 + SEQUENCE / (6 * self.width) + VOCABULARY / (12 * self.layers * self.width))
        )


MODELS: Dict[str, Model] = {
    "1.3B": Model(24, 2048),
    "2.7B": Model(32, 2560),
    "6.7B": Model(32, 4096),
    "13B": Model(40, 5120),
    "18B": Model(40, 6144),
}


@dataclass(frozen=True)
class Row:
    """One published measurement."""

    model: str
    tensor: int
    pipeline: int
    native: float  # TFLOP/s per GPU
    sdp4bit: float

    @property
    def speedup(self) -> float:
        return self.sdp4bit / self.native


@dataclass(frozen=True)
class Published:
    """A cluster's rows. `sheet`: network of a node by the data sheet, bytes a second; NVLink at 80 % of its sheet."""

    name: str
    cluster: Cluster
    sheet: float
    rows: List[Row]


PUBLISHED = [
    Published(
        "16 x 4 A100, Slingshot-10",
        Cluster(16, 4, 25e9, 0.8 * 300e9, GPUS["a100-40"]),
        25e9,
        [
            Row("1.3B", 1, 1, 24.1, 57.6),
            Row("2.7B", 1, 1, 24.0, 58.4),
            Row("6.7B", 4, 1, 10.8, 37.1),
            Row("13B", 4, 2, 9.7, 26.0),
            Row("18B", 4, 2, 10.2, 29.8),
        ],
    ),
    Published(
        "16 x 8 H800, InfiniBand 400 Gb/s",
        Cluster(16, 8, 50e9, 0.8 * 200e9, GPUS["h800"]),
        50e9,
        [
            Row("1.3B", 1, 1, 69.1, 106.0),
            Row("2.7B", 1, 1, 71.9, 116.9),
            Row("6.7B", 4, 1, 26.2, 77.9),
            Row("13B", 8, 1, 13.9, 53.5),
            Row("18B", 8, 1, 14.5, 59.2),
        ],
    ),
]


@dataclass
class Check:
    """A row, recomputed."""

    row: Row
    native_step: float  # seconds, from the published TFLOP/s
    compute: float  # seconds, by the model
    predicted: float  # speed-up
    fitted: bool

    @property
    def error(self) -> float:
        """Of the predicted speed-up, relative."""
        return self.predicted / self.row.speedup - 1


def training_of(row: Row) -> Training:
    return Training(MODELS[row.model].parameters, row.tensor, row.pipeline, gradient_bytes=4)


def native_step(published: Published, row: Row) -> float:
    """Seconds: one sequence for each data-parallel rank, accumulation 1."""
    sequences = published.cluster.nodes * published.cluster.gpus / (row.tensor * row.pipeline)
    world = published.cluster.nodes * published.cluster.gpus
    return MODELS[row.model].flops * sequences / world / (row.native * 1e12)


def predicted_speedup(cluster: Cluster, row: Row, seconds: float) -> Tuple[float, float]:
    """Of a native step of `seconds`: the speed-up, and the step's compute."""
    compute = compute_of(cluster, training_of(row), seconds)
    return seconds / step(cluster, training_of(row), compute, True).total, compute


def fit_network(published: Published) -> float:
    """The network speed with which the model gives the published speed-up of the fitted row."""
    row = next(row for row in published.rows if row.model == FITTED)
    seconds = native_step(published, row)
    low, high = 1e8, 1e13
    for _ in range(60):
        middle = math.sqrt(low * high)
        cluster = replace(published.cluster, network=middle)
        alone = sum(phase.total for phase in phases(cluster, training_of(row), False).values())
        # Too slow a network: communication would take longer than the step, or gain more than was gained.
        slow = alone >= seconds or predicted_speedup(cluster, row, seconds)[0] > row.speedup
        low, high = (middle, high) if slow else (low, middle)
    return (low + high) / 2


def check(published: Published, network: float) -> List[Check]:
    """All rows with that network."""
    cluster = replace(published.cluster, network=network)
    found = []
    for row in published.rows:
        seconds = native_step(published, row)
        predicted, compute = predicted_speedup(cluster, row, seconds)
        found.append(Check(row, seconds, compute, predicted, row.model == FITTED))
    return found


def table() -> str:
    """docs/estimate.md holds this text; a test compares."""
    lines = []
    for published in PUBLISHED:
        network = fit_network(published)
        checks = check(published, network)
        tested = [each for each in checks if not each.fitted]
        mean = sum(abs(each.error) for each in tested) / len(tested)
        lines += [
            (
                f"**{published.name}**: network of a node {network / 1e9:.1f} GB/s, fitted on {FITTED}; data sheet"
                f" {published.sheet / 1e9:.0f} GB/s. Mean error of the other rows' speed-up {mean * 100:.0f} %,"
                f" largest {max(abs(each.error) for each in tested) * 100:.0f} %."
            ),
            "",
            (
                "| model | published TFLOP/s | native step | of it compute, by the model | speed-up published |"
                " predicted | error |"
            ),
            "|---|---|---|---|---|---|---|",
        ]
        for each in checks:
            row = each.row
            shape = f"TP{row.tensor}" + (f" PP{row.pipeline}" if row.pipeline > 1 else "")
            error = "fitted" if each.fitted else f"{each.error * 100:+.0f} %"
            lines.append(
                f"| {row.model}, {shape} | {row.native:.1f} -> {row.sdp4bit:.1f} | {each.native_step * 1e3:.0f} ms | "
                f"{each.compute * 1e3:.0f} ms | {row.speedup:.2f} | {each.predicted:.2f} | {error} |"
            )
        lines.append("")
    return "\n".join(lines)

"""Predicts a training step with and without sdp4bit from sizes and speeds; docs/estimate.md derives the formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Dict, Optional, Sequence

from .errors import UserError
from .estimate_kernels import (
    CODED_4,
    CODED_8,
    CODED_DIFFERENCE,
    GPUS,
    WEIGHT_BYTES,
    Gpu,
    gradient_kernels,
    seconds,
    weight_kernels,
)

# Shares of a micro batch's compute beside which gradients (backward) and weights (forward) can travel. Not 2/3 and
# 1/3: the first and the last layers have nothing to hide behind.
WINDOW = {"gradients": 0.6, "weights": 0.3}
GRADIENT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True)
class Cluster:
    """Speeds in bytes a second, one direction, as they are reached."""

    nodes: int
    gpus: int  # per node
    network: float  # of a node, all its cards together
    nvlink: float  # of a GPU
    gpu: Gpu = field(default_factory=lambda: GPUS["h100"])
    network_latency: float = 14e-6  # of a message between nodes
    nvlink_latency: float = 3.4e-6


@dataclass(frozen=True)
class Training:
    """What is trained and how it is divided."""

    parameters: float
    tensor: int = 1
    pipeline: int = 1
    gradient_bytes: float = 4
    accumulation: int = 1
    overlap: float = 0.0  # share of communication that the framework tries to hide
    full_sharding: bool = False  # FSDP, ZeRO-3: weights are gathered twice and gradients reduced in each micro batch
    bucket: float = 0.0  # elements of a call; 0: as Megatron-LM, all at once without overlap, else 40 million or more


@dataclass(frozen=True)
class Shape:
    """A data-parallel communicator: its ranks, their nodes, and how many such communicators share a node's network."""

    ranks: int
    nodes: int
    local: int
    sharing: int
    elements: float

    @property
    def between(self) -> bool:
        return self.nodes > 1


def shape_of(cluster: Cluster, training: Training) -> Shape:
    """As Megatron-LM places ranks: tensor-parallel ones beside each other, then data-parallel ones, then stages."""
    world, divided = cluster.nodes * cluster.gpus, training.tensor * training.pipeline
    if world % divided:
        raise UserError(
            f"{world} GPUs cannot be divided by {training.tensor} x {training.pipeline} (--tensor-parallel x "
            "--pipeline-parallel): choose sizes whose product divides the number of GPUs"
        )
    ranks = world // divided
    local = max(1, min(ranks, cluster.gpus // training.tensor))
    while ranks % local:
        local -= 1
    return Shape(ranks, ranks // local, local, max(1, cluster.gpus // local), training.parameters / divided)


@dataclass
class Phase:
    """Communication of one kind in a step: what can be hidden, and kernels, which cannot."""

    exchange: float = 0.0
    kernels: float = 0.0
    between: float = 0.0  # bytes that a node sends to others

    @property
    def total(self) -> float:
        return self.exchange + self.kernels


def _calls(shape: Shape, training: Training) -> int:
    bucket = training.bucket or (max(40e6, 1e6 * shape.ranks) if training.overlap > 0 else shape.elements)
    return max(1, math.ceil(shape.elements / bucket))


def native(cluster: Cluster, training: Training, shape: Shape, element_bytes: float) -> Phase:
    """NCCL's ring through all ranks: every link carries nearly all bytes once; the slowest link decides."""
    if shape.ranks == 1:
        return Phase()
    carried = shape.elements * element_bytes * (shape.ranks - 1) / shape.ranks
    share = cluster.network / shape.sharing
    times = [carried / cluster.nvlink if shape.local > 1 else 0.0, carried / share if shape.between else 0.0]
    hops = (shape.nodes - 1) * cluster.network_latency + (shape.ranks - shape.nodes) * cluster.nvlink_latency
    return Phase(max(times) + hops * _calls(shape, training), 0.0, carried * shape.sharing if shape.between else 0.0)


def compressed_gradients(cluster: Cluster, training: Training, shape: Shape) -> Phase:
    """ReduceScatter on two levels: 8 bits in the node, then 4 bits between nodes, one after the other."""
    inside = shape.elements * (shape.local - 1) / shape.local * CODED_8 if shape.local > 1 else 0.0
    between = (
        shape.elements * (shape.nodes - 1) / shape.nodes * CODED_4
    )  # of all the node's ranks of the communicator
    exchange = inside / cluster.nvlink + between * shape.sharing / cluster.network
    latency = ((shape.local > 1) * cluster.nvlink_latency + cluster.network_latency) * _calls(shape, training)
    costs = gradient_kernels(shape.elements, training.gradient_bytes, shape.nodes, shape.local)
    return Phase(exchange + latency, seconds(costs, cluster.gpu), between * shape.sharing)


def compressed_weights(cluster: Cluster, training: Training, shape: Shape) -> Phase:
    """AllGather as differences between nodes, then reconstructed shards in the node at full precision."""
    between = shape.elements * (shape.nodes - 1) / shape.nodes * CODED_DIFFERENCE
    inside = shape.elements * (shape.local - 1) / shape.local * WEIGHT_BYTES
    exchange = inside / cluster.nvlink + between * shape.sharing / cluster.network
    latency = ((shape.local > 1) * cluster.nvlink_latency + cluster.network_latency) * _calls(shape, training)
    return Phase(
        exchange + latency,
        seconds(weight_kernels(shape.elements, shape.nodes, shape.local), cluster.gpu),
        between * shape.sharing,
    )


@dataclass
class Step:
    """One step's parts, in seconds; exposed is what is not hidden behind compute."""

    compute: float
    phases: Dict[str, Phase]
    exposed: Dict[str, float]

    @property
    def total(self) -> float:
        return self.compute + sum(self.exposed.values())

    @property
    def between(self) -> float:
        return sum(phase.between for phase in self.phases.values())

    @property
    def kernels(self) -> float:
        return sum(phase.kernels for phase in self.phases.values())


def _times(training: Training) -> Dict[str, int]:
    """How often each kind of communication happens in a step."""
    if training.full_sharding:
        return {"gradients": training.accumulation, "weights": 2 * training.accumulation}
    return {"gradients": 1, "weights": 1}


def phases(cluster: Cluster, training: Training, with_sdp4bit: bool) -> Dict[str, Phase]:
    """A step's communication. What the library leaves to NCCL is NCCL's: communicators in one node, and gathers into
    buffers that do not stay."""
    shape = shape_of(cluster, training)
    taken = with_sdp4bit and shape.between
    found = {
        "gradients": (
            compressed_gradients(cluster, training, shape)
            if taken
            else native(cluster, training, shape, training.gradient_bytes)
        ),
        "weights": (
            compressed_weights(cluster, training, shape)
            if taken and not training.full_sharding
            else native(cluster, training, shape, WEIGHT_BYTES)
        ),
    }
    times = _times(training)
    return {
        name: Phase(phase.exchange * times[name], phase.kernels * times[name], phase.between * times[name])
        for name, phase in found.items()
    }


def step(cluster: Cluster, training: Training, compute: float, with_sdp4bit: bool) -> Step:
    """A step whose compute alone takes `compute` seconds. Kernels are never hidden: they take the GPU from compute."""
    found = phases(cluster, training, with_sdp4bit)
    exposed = {}
    for name, phase in found.items():
        # Optimizer sharding reduces after the last micro batch and gathers before the first one.
        window = WINDOW[name] * compute / (1 if training.full_sharding else training.accumulation)
        exposed[name] = phase.total - min(training.overlap * phase.exchange, window)
    return Step(compute, found, exposed)


def compute_of(cluster: Cluster, training: Training, native_step: float) -> float:
    """The compute of a native step that was measured: what is left of it without exposed communication."""
    least = step(cluster, training, 0.0, False).total
    if least >= native_step:
        raise UserError(
            f"the communication alone would take {least * 1e3:.0f} ms with this network, longer than the step of "
            f"{native_step * 1e3:.0f} ms: correct --nic-gbit, --nics, --network-efficiency or --gradients"
        )
    low, high = 0.0, native_step
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if step(cluster, training, middle, False).total < native_step else (low, middle)
    return (low + high) / 2


@dataclass
class Prediction:
    """Both steps, and the network speed of a node below which sdp4bit is the faster one."""

    cluster: Cluster
    training: Training
    shape: Shape
    native: Step
    sdp4bit: Step
    break_even: Optional[float]  # bytes a second; None: on the same side at every speed
    break_even_of: Dict[str, Optional[float]]  # the same of one kind of communication alone

    @property
    def speedup(self) -> float:
        return self.native.total / self.sdp4bit.total


def _gain(cluster: Cluster, training: Training, compute: float, network: float, of: Sequence[str]) -> float:
    """Seconds that sdp4bit saves in a step."""
    at = replace(cluster, network=network)
    before, after = (step(at, training, compute, with_sdp4bit).exposed for with_sdp4bit in (False, True))
    return sum(before[name] - after[name] for name in of)


def _break_even(cluster: Cluster, training: Training, compute: float, of: Sequence[str]) -> Optional[float]:
    low, high = 1e7, 1e14
    if not _gain(cluster, training, compute, low, of) > 0 > _gain(cluster, training, compute, high, of):
        return None
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _gain(cluster, training, compute, middle, of) > 0 else (low, middle)
    return low


def predict(
    cluster: Cluster, training: Training, native_step: Optional[float] = None, compute: Optional[float] = None
) -> Prediction:
    """From a measured native step, or from the compute of one."""
    if compute is None:
        compute = compute_of(cluster, training, native_step or 0.0)
    return Prediction(
        cluster,
        training,
        shape_of(cluster, training),
        step(cluster, training, compute, False),
        step(cluster, training, compute, True),
        _break_even(cluster, training, compute, list(WINDOW)),
        {name: _break_even(cluster, training, compute, [name]) for name in WINDOW},
    )

"""ZeRO-1: every rank has all weights in bf16 and the optimizer's state of its own shards.

One step as in Megatron-LM's distributed optimizer: the gradient's flat buffer is reduce-scattered in place bucket by
bucket, each rank updates its fp32 masters, writes them into its own part of the flat bf16 weight buffer, and gathers the
buffer in place. Both buffers stay where they are for the whole run.
"""
from __future__ import annotations

import hashlib
from typing import Optional

import torch
from torch import nn

from optimizer import ShardedAdam
from sharding import Layout, lay_out
from snapshots import Snapshots
from transport import Transport


class Zero1:
    """A model whose parameters and gradients are views of flat fp32 tensors; the weights' values are those of the
    bf16 buffer, at which all ranks arrive by gathering."""

    def __init__(
        self, model: nn.Module, transport: Transport, buckets: int, gradients: torch.dtype, decay: float
    ) -> None:
        self.transport = transport
        parameters = list(model.parameters())
        self.layout: Layout = lay_out([parameter.numel() for parameter in parameters], transport.world, buckets)
        self.flat_weights = torch.zeros(self.layout.elements, device=transport.compute)
        self.flat_gradient = torch.zeros(self.layout.elements, device=transport.compute)
        for parameter, place in zip(parameters, self.layout.parameters):
            self.flat_weights[place].copy_(parameter.detach().flatten())
            parameter.data = self.flat_weights[place].view_as(parameter)
            parameter.grad = self.flat_gradient[place].view_as(parameter)
        self.own = [bucket.own(transport.rank) for bucket in self.layout.buckets]
        self.optimizer = ShardedAdam(torch.cat([self.flat_weights[part] for part in self.own]), decay)
        self.gradient_buffer = transport.buffer(self.layout.elements, gradients)
        self.weight_buffer = transport.buffer(self.layout.elements, torch.bfloat16)
        self.weight_buffer.store(0, self.flat_weights)
        self._read_weights()

    def step(self, rate: float, clip: float, number: int, snapshots: Optional[Snapshots]) -> None:
        """From the gradient that backward has added up, to new weights on every rank."""
        taken = snapshots if snapshots is not None and snapshots.due(number) else None
        if taken is not None:
            taken.gradient(number, self.flat_gradient)
        gradient = self._reduce_gradient()
        norm = self.transport.all_reduce([float(gradient.square().sum(dtype=torch.float64))])[0] ** 0.5
        if not norm < float("inf"):
            raise FloatingPointError(f"the gradient's norm is {norm} in step {number}")
        gradient *= min(1.0, clip / (norm + 1e-6))
        self._gather_weights(self.optimizer.step(gradient, rate), number, taken)
        self.flat_gradient.zero_()

    def weights_hash(self) -> str:
        """Of every bit of the weights that this rank computes with: its weight buffer, widened from bf16."""
        return hashlib.sha256(self.flat_weights.cpu().numpy().tobytes()).hexdigest()[:16]

    def _reduce_gradient(self) -> torch.Tensor:
        self.gradient_buffer.store(0, self.flat_gradient)
        for bucket in self.layout.buckets:
            self.transport.reduce_scatter(self.gradient_buffer, bucket.start, bucket.shard)
        return torch.cat([self.gradient_buffer.load(part) for part in self.own])

    def _gather_weights(self, masters: torch.Tensor, number: int, taken: Optional[Snapshots]) -> None:
        shards = list(masters.split([bucket.shard for bucket in self.layout.buckets]))
        if taken is not None:
            held = torch.cat([self.weight_buffer.load(part) for part in self.own])
            taken.weight_difference(number, masters.to(torch.bfloat16).float() - held)
        for part, shard in zip(self.own, shards):
            self.weight_buffer.store(part.start, shard)
        for bucket in self.layout.buckets:
            self.transport.all_gather(self.weight_buffer, bucket.start, bucket.shard)
        self._read_weights()

    def _read_weights(self) -> None:
        self.flat_weights.copy_(self.weight_buffer.load(slice(0, self.layout.elements)))

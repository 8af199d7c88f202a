"""Snapshots of what goes on the wire, as .npy files for studies of codecs."""
from __future__ import annotations

from pathlib import Path

import torch


class Snapshots:
    """Every `period` steps: this rank's gradient before it is reduced (bf16 bit patterns as uint16), and its new
    shard minus what its part of the weight buffer held (fp32)."""

    def __init__(self, folder: Path, period: int, rank: int) -> None:
        import numpy  # torch needs it too; imported here because only snapshots do

        self._numpy = numpy
        self.folder = folder
        self.period = period
        self.rank = rank
        folder.mkdir(parents=True, exist_ok=True)

    def due(self, step: int) -> bool:
        return step % self.period == 0

    def gradient(self, step: int, gradient: torch.Tensor) -> None:
        bits = gradient.to(torch.bfloat16).view(torch.int16).cpu().numpy().view(self._numpy.uint16)
        self._numpy.save(self.folder / f"gradient_bf16_step{step}_rank{self.rank}.npy", bits)

    def weight_difference(self, step: int, difference: torch.Tensor) -> None:
        self._numpy.save(self.folder / f"weight_difference_f32_step{step}_rank{self.rank}.npy", difference.cpu().numpy())

"""Adam with decoupled weight decay on this rank's shards; the fp32 masters live here and nowhere else."""
from __future__ import annotations

import math

import torch


def learning_rate(step: int, steps: int, peak: float, warmup: int) -> float:
    """Rises linearly for `warmup` steps, then falls along a cosine to a twentieth of `peak`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    along = (step - warmup) / max(1, steps - warmup)
    return peak * (0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * along)))


class ShardedAdam:
    """Masters, first and second moments of the elements that this rank owns, in fp32."""

    def __init__(self, masters: torch.Tensor, decay: float, betas: tuple[float, float] = (0.9, 0.95)) -> None:
        self.masters = masters.clone()
        self.decay = decay
        self.betas = betas
        self.mean = torch.zeros_like(masters)
        self.square = torch.zeros_like(masters)
        self.steps = 0

    def step(self, gradient: torch.Tensor, rate: float) -> torch.Tensor:
        """One update; returns the masters."""
        self.steps += 1
        first, second = self.betas
        self.mean.lerp_(gradient, 1.0 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
        scale = (self.square / (1.0 - second**self.steps)).sqrt_().add_(1e-8)
        self.masters.mul_(1.0 - rate * self.decay)
        self.masters.addcdiv_(self.mean, scale, value=-rate / (1.0 - first**self.steps))
        return self.masters

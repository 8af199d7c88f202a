"""Gaps of final validation loss to another scheme of the same seed, their spread, and what may be said of them.

Training amplifies small differences, so two runs end apart whatever separates them; by how much is not known beforehand.
It is estimated from the compressed schemes together: the standard deviation of their gaps over the seeds, each about its
own mean, pooled. Left out are a scheme that is known to lose, whose gaps vary with what it loses, and the control, because
the order of sums alone changes less than compression does. A mean gap is called distinguishable if noise of this size alone
would exceed it in less than one of a hundred studies (Student's t, two-sided).
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Sequence

# Two-sided 99 % points of Student's t, by degrees of freedom; beyond the table its last value, which is on the safe side.
_T99 = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
    2.898, 2.878, 2.861, 2.845,
]  # fmt: skip


@dataclass(frozen=True)
class Noise:
    """How far apart runs end that differ in nothing systematic."""

    deviation: float
    freedom: int

    def error(self, seeds: int, ways: int = 1) -> float:
        """The standard error of a mean over `seeds` gaps."""
        return self.deviation * math.sqrt(ways / seeds)

    def margin(self, seeds: int, ways: int = 1) -> float:
        """What noise alone moves a mean over `seeds` gaps by, at most, in 99 of 100 studies; `ways` 2: a gap between two
        compressed schemes."""
        if self.freedom == 0:
            return math.inf
        return _T99[min(self.freedom, len(_T99)) - 1] * self.error(seeds, ways)


@dataclass(frozen=True)
class Gap:
    """Differences to the reference by seed, in nats."""

    values: tuple[float, ...]
    margin: float = math.inf
    """What noise alone moves the mean by, see Noise; infinite where nothing is known about it."""

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def squares(self) -> float:
        """Sum of squared distances to the mean."""
        return math.fsum((value - self.mean) ** 2 for value in self.values)

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds; 0 for one seed."""
        return math.sqrt(self.squares / (len(self.values) - 1)) if len(self.values) > 1 else 0.0

    @property
    def verdict(self) -> str:
        if math.isinf(self.margin):
            return "not tested"
        if self.mean > self.margin:
            return "worse"
        return "better" if self.mean < -self.margin else "not distinguishable"


def gap(losses: Sequence[float], reference: Sequence[float], margin: float = math.inf) -> Gap:
    """Of losses by seed to those of a reference with the same seeds."""
    if len(losses) != len(reference) or not losses:
        raise ValueError("as many losses as references, and at least one")
    return Gap(tuple(ours - theirs for ours, theirs in zip(losses, reference)), margin)


def pooled(gaps: Sequence[Gap]) -> Noise:
    """The noise of gaps, each about its own mean."""
    freedom = sum(len(found.values) - 1 for found in gaps)
    squares = math.fsum(found.squares for found in gaps)
    return Noise(math.sqrt(squares / freedom) if freedom else 0.0, freedom)

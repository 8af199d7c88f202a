"""What a study must show, or the machinery is broken: checked by the short version in continuous integration.

Only what is clear of the noise is asked for, and the bounds follow from the study itself. What a whole scheme may end
apart from plain training is the largest of three: what lies between plain's own seeds, three times the noise of one gap
(`comparison.py`), and the largest gap of the control, which only sums in another order. One of them alone may be small by
chance. Direct 4-bit weights are measured against the gaps of the schemes that should lose nothing.
"""
from __future__ import annotations

import math
from typing import Optional

from schemes import CONTROL, PLAIN
from summary import Summary


def failures(summary: Summary) -> list[str]:
    """One sentence for each promise that was not kept."""
    return [*_finite(summary), *_equal_ranks(summary), *_modes(summary), *_losses(summary)]


def _finite(summary: Summary) -> list[str]:
    bad = []
    for name, runs in summary.results.items():
        for seed, result in runs.items():
            if not all(math.isfinite(point["validation"]) for point in result["curve"]):
                bad.append(f"{name}, seed {seed}: a validation loss is not finite")
            elif not result["curve"][-1]["validation"] < result["curve"][0]["validation"] - 1.0:
                bad.append(f"{name}, seed {seed}: the loss did not fall by 1 nat, so nothing was learnt")
    return bad


def _equal_ranks(summary: Summary) -> list[str]:
    return [f"{row.scheme.name}: ranks do not hold the same weights at the end" for row in summary.rows if not row.equal_at_end]


def _modes(summary: Summary) -> list[str]:
    """A comparison says nothing if what is compared was not in force."""
    bad = []
    for row in summary.rows:
        variables = row.scheme.variables
        if not row.scheme.preloaded:
            continue
        taken = variables.get("SDP4BIT_COLLECTIVES", "reduce_scatter,all_gather").split(",")
        for function, compressed in (("reduce_scatter", row.gradients_compressed), ("all_gather", row.weights_compressed)):
            if function in taken and compressed < 0.7:
                bad.append(f"{row.scheme.name}: only {100 * compressed:.0f} % of the calls of {function} were compressed")
            if function not in taken and compressed > 0:
                bad.append(f"{row.scheme.name}: calls of {function} were compressed against its settings")
        if "all_gather" in taken and variables.get("SDP4BIT_WEIGHT_LEDGER") != "off":
            for seed, result in summary.results[row.scheme.name].items():
                for found in result["library"]["classes"]:
                    if found["stage"] != "difference" or found["own_shard"] != "replica":
                        bad.append(f"{row.scheme.name}, seed {seed}: a class of weights is not in force: {found}")
    return bad


def _bound(summary: Summary) -> Optional[float]:
    """What the mean gap of a whole scheme may be; None: one seed says nothing of it."""
    plain = summary.row(PLAIN).losses
    if len(plain) < 2:
        return None
    control = summary.row(CONTROL).gap if summary.has(CONTROL) else None
    order_of_sums = max(map(abs, control.values)) if control is not None else 0.0
    return max(max(plain) - min(plain), 3.0 * summary.noise.deviation, order_of_sums)


def _losses(summary: Summary) -> list[str]:
    """Whole schemes end near plain; direct 4-bit weights far from differences."""
    bad, largest, bound = [], 0.0, _bound(summary)
    for name in ("sdp4bit", "weights"):
        found = summary.row(name).gap if summary.has(name) else None
        if found is None:
            continue
        largest = max(largest, *map(abs, found.values))
        if bound is not None and abs(found.mean) > bound:
            bad.append(
                f"{name}: its mean gap of {found.mean:+.4f} is larger than {bound:.4f}, what seeds, noise and the order of sums explain"
            )
    lost = summary.row("direct4").against if summary.has("direct4") else None
    if lost is not None and not min(lost.values) > 2.0 * largest:
        bad.append(
            f"direct4: {lost.values} to weight differences is not clearly worse for every seed; gaps of whole schemes reach "
            f"{largest:.4f}"
        )
    return bad

"""What a study must show, or the machinery is broken: checked by the short version in continuous integration.

Only what is clear of the noise is asked for, and the bounds follow from the study itself: from how far apart plain
training ends for its seeds, and from the gaps of the schemes that should lose nothing.
"""
from __future__ import annotations

import math

from schemes import PLAIN
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


def _losses(summary: Summary) -> list[str]:
    """Whole schemes end as near to plain as its own seeds do to each other; direct 4-bit weights far from differences."""
    plain = summary.row(PLAIN).losses
    bad, largest = [], 0.0
    for name in ("sdp4bit", "weights"):
        found = summary.row(name).gap if summary.has(name) else None
        if found is None:
            continue
        largest = max(largest, *map(abs, found.values))
        if len(plain) > 1 and abs(found.mean) > max(plain) - min(plain):
            bad.append(
                f"{name}: its mean gap of {found.mean:+.4f} is larger than what lies between the seeds of plain training, "
                f"{max(plain) - min(plain):.4f}"
            )
    lost = summary.row("direct4").against if summary.has("direct4") else None
    if lost is not None and not min(lost.values) > 2.0 * largest:
        bad.append(
            f"direct4: {lost.values} to weight differences is not clearly worse for every seed; gaps of whole schemes reach "
            f"{largest:.4f}"
        )
    return bad

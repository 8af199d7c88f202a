"""What may be said of a study, in sentences that follow from its numbers."""
from __future__ import annotations

import math

from comparison import Gap
from schemes import PLAIN
from summary import Row, Summary


def _by(gap: Gap) -> str:
    return f"{gap.mean:+.4f} ± {gap.margin:.4f}"


def of_gap(row: Row, gap: Gap, other: str) -> str:
    """One scheme against another."""
    title = row.scheme.title
    if gap.verdict == "not tested":
        return f"{title}: {gap.mean:+.4f} to {other}; one seed cannot tell that from noise."
    if gap.verdict == "not distinguishable":
        return f"{title}: not distinguishable from {other} ({_by(gap)})."
    return f"{title}: {gap.verdict} than {other}, clear of the noise ({_by(gap)})."


def of_study(summary: Summary) -> list[str]:
    """Noise first, then each scheme against plain, ablations against what they change, bytes, ranks."""
    said = [_of_noise(summary)]
    for row in summary.rows:
        if row.gap is not None:
            said.append(of_gap(row, row.gap, "plain training"))
        if row.against is not None and row.scheme.against is not None:
            said.append(of_gap(row, row.against, f"“{summary.row(row.scheme.against).scheme.title}”"))
    said += [_of_bytes(summary, row) for row in summary.rows if row.scheme.name == "sdp4bit"]
    said.append(_of_ranks(summary))
    return said


def _of_noise(summary: Summary) -> str:
    seeds = len(summary.seeds)
    if summary.noise.freedom == 0:
        return f"{seeds} seed{'s' if seeds > 1 else ''}: gaps are shown, but their noise is not known."
    plain = summary.row(PLAIN).losses
    return (
        f"Noise: from seed to seed the gaps of a compressed scheme vary by {summary.noise.deviation:.4f} (standard deviation, "
        f"pooled over the schemes that are not known to lose), so a mean gap to plain training over {seeds} seeds has a standard "
        f"error of {summary.noise.error(seeds):.4f}, and one to another compressed scheme of {summary.noise.error(seeds, 2):.4f}. "
        "“±” is what such noise alone moves a mean by, at most, in 99 of 100 studies; smaller effects would not be seen. "
        f"Plain training itself ends between {min(plain):.4f} and {max(plain):.4f}, depending on the seed."
    )


def _of_bytes(summary: Summary, row: Row) -> str:
    plain = summary.rows[0]
    if math.isnan(plain.between_nodes) or not row.between_nodes or not row.in_node:
        return "Bytes were not counted."
    return (
        f"{row.scheme.title}: {plain.between_nodes / row.between_nodes:.2f} times fewer bytes between nodes and "
        f"{plain.in_node / row.in_node:.2f} times fewer in the node, over the whole training with its native first calls; "
        f"{100 * row.gradients_compressed:.1f} % of the ReduceScatters and {100 * row.weights_compressed:.1f} % of the "
        "AllGathers were compressed."
    )


def _of_ranks(summary: Summary) -> str:
    unequal = [row.scheme.title for row in summary.rows if not row.equal_at_end]
    if unequal:
        return "At the end ranks did NOT hold the same weights in: " + "; ".join(unequal) + "."
    return "At the end all ranks held the same weights, bit for bit, in every run."

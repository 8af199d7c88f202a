"""The study as a table: for the terminal, as Markdown, and its curves as CSV."""
from __future__ import annotations

import csv
import io
import math
from typing import Optional, Sequence

from comparison import Gap
from schemes import PLAIN
from summary import Row, Summary

HEADERS = (
    "scheme", "validation loss", "gap to plain", "spread", "verdict", "KB a step between nodes", "in nodes",
    "calls compressed (gradients, weights)", "ranks hold the same weights",
)  # fmt: skip


def kilobytes(number: float) -> str:
    return "-" if math.isnan(number) else f"{number / 1000:.0f}"


def with_margin(gap: Optional[Gap]) -> str:
    if gap is None:
        return "-"
    return f"{gap.mean:+.4f}" + ("" if math.isinf(gap.margin) else f" ± {gap.margin:.4f}")


def cells(summary: Summary, row: Row) -> tuple[str, ...]:
    """One row, as texts under HEADERS."""
    if row.gap is None:
        gap, spread, verdict = "-", "-", "-"
    else:
        gap, spread, verdict = with_margin(row.gap), f"{row.gap.spread:.4f}", row.gap.verdict
    compressed = "-"
    if row.scheme.preloaded:
        compressed = f"{100 * row.gradients_compressed:.1f} %, {100 * row.weights_compressed:.1f} %"
    equal = "NO" if row.equal_from is None else ("always" if row.equal_from == 0 else f"after step {row.equal_from}")
    return (
        row.scheme.title, f"{row.loss:.4f}", gap, spread, verdict, kilobytes(row.between_nodes), kilobytes(row.in_node),
        compressed, equal,
    )  # fmt: skip


def as_markdown(summary: Summary, sentences: Sequence[str]) -> str:
    """The table, and below it what may be said of it."""
    lines = ["| " + " | ".join(HEADERS) + " |", "|" + "---|" * len(HEADERS)]
    lines += ["| " + " | ".join(cells(summary, row)) + " |" for row in summary.rows]
    return "\n".join([*lines, "", *(f"- {sentence}" for sentence in sentences)]) + "\n"


def as_text(summary: Summary) -> str:
    """The columns that fit on a terminal."""
    chosen = (0, 1, 2, 4, 5, 7)
    table = [[HEADERS[place] for place in chosen]]
    table += [[cells(summary, row)[place] for place in chosen] for row in summary.rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(chosen))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table) + "\n"


def as_csv(summary: Summary) -> str:
    """One line an evaluation; the gap is to plain of the same seed at the same step."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(("scheme", "seed", "step", "training_loss", "validation_loss", "gap_to_plain"))
    for row in summary.rows:
        for seed in summary.seeds:
            result = summary.results[row.scheme.name][seed]
            plain = summary.results[PLAIN][seed]["curve"]
            for point, reference in zip(result["curve"], plain):
                training = "" if point["training"] is None else f"{point['training']:.6f}"
                writer.writerow(
                    (
                        row.scheme.name, seed, point["step"], training, f"{point['validation']:.6f}",
                        f"{point['validation'] - reference['validation']:.6f}",
                    )
                )  # fmt: skip
    return written.getvalue()

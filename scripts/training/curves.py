"""The curves as SVG, by matplotlib."""
from __future__ import annotations

import io
import re
from typing import Any

from schemes import CONTROL, PLAIN
from summary import Row, Summary

# One for each scheme; the first eight are distinct also for those who see red and green alike (Okabe and Ito).
COLOURS = [
    "#000000", "#999999", "#e69f00", "#0072b2", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#b09000", "#6a51a3", "#882255", "#a65628",
]  # fmt: skip


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "sdp4bit", "svg.fonttype": "none", "font.size": 10, "axes.grid": True})
    matplotlib.rcParams.update({"grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False})
    from matplotlib import pyplot

    return pyplot


def _svg(pyplot: Any, figure: Any) -> str:
    """Without what would differ from one run of this program to the next."""
    written = io.StringIO()
    figure.savefig(written, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    text = written.getvalue()
    return re.sub(r"[ \t]+$", "", text[text.index("<svg") :], flags=re.MULTILINE)


def _steps(summary: Summary, row: Row) -> list[int]:
    return [point["step"] for point in summary.results[row.scheme.name][summary.seeds[0]]["curve"]]


def _losses(summary: Summary, row: Row, seed: int) -> list[float]:
    return [point["validation"] for point in summary.results[row.scheme.name][seed]["curve"]]


def _mean(columns: list[list[float]]) -> list[float]:
    return [sum(values) / len(values) for values in zip(*columns)]


def losses(summary: Summary) -> str:
    """Validation loss by step, mean over the seeds; the start, which is the same for all, is left out."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 4.2))
    for row, colour in zip(summary.rows, COLOURS):
        if row.scheme.name == CONTROL:
            continue
        mean = _mean([_losses(summary, row, seed) for seed in summary.seeds])
        wide = row.scheme.name == PLAIN
        axes.plot(
            _steps(summary, row)[1:], mean[1:], color=colour, linewidth=3 if wide else 1.4,
            alpha=0.45 if wide else 1.0, label=row.scheme.title,
        )  # fmt: skip
    axes.set(xlabel="step", ylabel="validation loss (nats a character)")
    axes.legend(frameon=False, fontsize=8)
    return _svg(pyplot, figure)


def gaps(summary: Summary) -> str:
    """Gap to plain of the same seed at the end: a dot a seed, the mean, and what noise alone does to it."""
    pyplot = _pyplot()
    rows = [(row, colour) for row, colour in zip(summary.rows, COLOURS) if row.gap is not None]
    figure, axes = pyplot.subplots(figsize=(8, 0.9 + 0.42 * max(1, len(rows))))
    axes.axvline(0, color="black", linewidth=0.8)
    for place, (row, colour) in enumerate(rows):
        height = len(rows) - 1 - place
        gap = row.gap
        assert gap is not None
        axes.plot(gap.values, [height] * len(gap.values), "o", color=colour, markersize=4, alpha=0.6)
        if gap.margin < float("inf"):
            axes.errorbar(gap.mean, height, xerr=gap.margin, fmt="|", color=colour, capsize=3, markersize=12)
    axes.set_yticks(range(len(rows)), [row.scheme.title for row, _ in reversed(rows)])
    axes.set(xlabel="gap of the final validation loss to plain of the same seed (right: worse)", ylim=(-0.6, len(rows) - 0.4))
    return _svg(pyplot, figure)


def gap_over_time(summary: Summary) -> str:
    """Gap to plain of the same seed by step, mean over the seeds."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 3.6))
    plain = summary.row(PLAIN)
    for row, colour in zip(summary.rows, COLOURS):
        if row.scheme.name == PLAIN:
            continue
        columns = [
            [ours - theirs for ours, theirs in zip(_losses(summary, row, seed), _losses(summary, plain, seed))]
            for seed in summary.seeds
        ]
        style = "--" if row.scheme.name == CONTROL else "-"
        axes.plot(_steps(summary, row), _mean(columns), style, color=colour, linewidth=1.4, label=row.scheme.title)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(xlabel="step", ylabel="gap to plain (nats)")
    axes.legend(frameon=False, fontsize=8)
    return _svg(pyplot, figure)

"""What a page shows of results of `sdp4bit bench`: bandwidth curves, speed-ups, bytes and errors."""

from __future__ import annotations

import pathlib
from typing import Dict, List, Sequence, Tuple

from . import page, svg_plots
from .bench_results import Pair, Results, Summary, pairs, summarize
from .units import show_bytes, show_size

NAMES = {"reduce_scatter": "ReduceScatter", "all_gather": "AllGather"}


def _best(found: Sequence[Pair]) -> Pair:
    return max(found, key=lambda each: each.native.bytes)


def _fewer(pair: Pair, results: Results) -> str:
    native, sdp4bit = results.bytes_of(pair.native), results.bytes_of(pair.sdp4bit)
    return (
        f"{native / sdp4bit:.1f} times fewer bytes {results.bytes_where}"
        if native and sdp4bit and native > sdp4bit
        else ""
    )


def verdict(benches: Sequence[Tuple[str, Results]]) -> str:
    """Of the largest sizes."""
    parts: List[str] = []
    for _, results in benches:
        for collective in NAMES:
            found = [pair for pair in pairs(results.rows) if pair.native.collective == collective]
            if not found:
                continue
            pair = _best(found)
            said = [f"{pair.speedup:.2f} times as fast" if not results.emulated else "", _fewer(pair, results)]
            said = [text for text in said if text]
            parts.append(
                f"{NAMES[collective]} of {show_size(pair.native.bytes)} {pair.native.type}: "
                + (", ".join(said) or "measured with and without the library")
            )
    if not parts:
        return "These results hold no case that was measured with and without the library."
    label = (
        " Byte counts are real, times are not: this was the emulated cluster."
        if any(r.emulated for _, r in benches)
        else (
            " There was no network between the nodes: this was one machine."
            if any(r.has_no_network for _, r in benches)
            else ""
        )
    )
    return "With sdp4bit, " + "; ".join(parts) + "." + label


def curves(summaries: Sequence[Summary], case: Tuple[str, str, str], results: Results) -> str:
    """Bandwidth over the size; of the emulated cluster bytes, for it has no times."""
    emulated, (collective, type_name, redop) = results.emulated, case
    same = sorted(
        (
            each
            for each in summaries
            if (each.collective, each.type, each.redop) == case and not (emulated and results.bytes_of(each) is None)
        ),
        key=lambda each: each.bytes,
    )
    found = []
    for variant, colour in (("native", svg_plots.NATIVE), ("sdp4bit", svg_plots.SENT)):
        own = [each for each in same if each.variant == variant]
        if not own:
            continue
        x = [each.bytes / 2**20 for each in own]
        if emulated:
            found.append(
                svg_plots.Curve(variant, colour, x, [(results.bytes_of(each) or 0) / 1e6 for each in own], style=".-")
            )
        else:
            found.append(
                svg_plots.Curve(
                    variant,
                    colour,
                    x,
                    [each.busbw for each in own],
                    [each.busbw_low for each in own],
                    [each.busbw_high for each in own],
                    ".-",
                )
            )
    label, unit = (f"sent {results.bytes_where} by a rank", "MB") if emulated else ("bus bandwidth", "GB/s")
    last = "; ".join(f"{curve.name}: {curve.y[-1]:.3g} {unit} at the largest size" for curve in found)
    title = f"{NAMES.get(collective, collective)}, {type_name}" + ("" if redop == "none" else f", {redop}")
    svg = svg_plots.lines(
        title,
        f"{label.capitalize()} over the size. {last}.",
        found,
        "size of the larger buffer, MiB",
        f"{label}, {unit}",
        log_x=True,
        ticks=sorted({each.bytes / 2**20 for each in same}),
    )
    return (
        page.figure(svg, "Bytes of a call." if emulated else "Median of the repeats; the band is their range.")
        if svg
        else ""
    )


def _table(results: Results) -> str:
    rows = []
    for pair in pairs(results.rows):
        native, ours = pair.native, pair.sdp4bit
        row: List[object] = [
            NAMES.get(native.collective, native.collective),
            show_size(native.bytes),
            native.type,
            native.redop,
        ]
        if not results.emulated:
            row += [
                f"{native.busbw:.4g}",
                f"{ours.busbw:.4g}",
                f"{pair.speedup:.2f} ({pair.speedup_low:.2f} to {pair.speedup_high:.2f})",
            ]
        if results.emulated:
            row += [show_bytes(results.bytes_of(each)) for each in (native, ours)]
        rows.append(row + ["" if ours.relative_error is None else f"{ours.relative_error:.2e}"])
    if not rows:
        return page.paragraph("No case was measured with and without the library.")
    measured = (
        [f"{results.bytes_where}, native", "sdp4bit"]
        if results.emulated
        else ["GB/s native", "GB/s sdp4bit", "speed-up (range)"]
    )
    head = ["collective", "size", "type", "operation", *measured, "relative error"]
    return page.table(head, rows, numbers=range(4, len(head)))


def section_of(path: str, results: Results) -> str:
    """One file's section."""
    summaries = summarize(results.rows)
    cases: Dict[Tuple[str, str, str], None] = dict.fromkeys(
        (each.collective, each.type, each.redop) for each in summaries
    )
    figures = [curves(summaries, case, results) for case in list(cases)[:8]]
    note = (
        "Bytes of one rank and call."
        if results.emulated
        else "Bus bandwidth as nccl-tests defines it: by the bytes that the call asks for, not by those that travel."
    )
    return page.section(
        f"Bench: {pathlib.Path(path).name}",
        page.paragraph(results.label),
        page.paragraph(note, "label"),
        page.plots(figures),
        _table(results),
    )

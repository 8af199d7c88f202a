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


def _fewer(pair: Pair) -> str:
    native, sdp4bit = pair.native.bytes_between_nodes, pair.sdp4bit.bytes_between_nodes
    return f"{native / sdp4bit:.1f} times fewer bytes between nodes" if native and sdp4bit else ""


def verdict(benches: Sequence[Tuple[str, Results]]) -> str:
    """Of the largest sizes."""
    parts: List[str] = []
    for _, results in benches:
        for collective in NAMES:
            found = [pair for pair in pairs(results.rows) if pair.native.collective == collective]
            if not found:
                continue
            pair = _best(found)
            said = [f"{pair.speedup:.2f} times as fast" if not results.emulated else "", _fewer(pair)]
            said = [text for text in said if text]
            parts.append(f"{NAMES[collective]} of {show_size(pair.native.bytes)} {pair.native.type}: "
                         + (", ".join(said) or "measured with and without the library"))
    if not parts:
        return "These results hold no case that was measured with and without the library."
    label = " Byte counts are real, times are not: this was the emulated cluster." if any(r.emulated for _, r in benches) else ""
    return "With sdp4bit, " + "; ".join(parts) + "." + label


def curves(summaries: Sequence[Summary], collective: str, type_name: str, redop: str, emulated: bool) -> str:
    found = []
    for variant, colour in (("native", svg_plots.NATIVE), ("sdp4bit", svg_plots.SENT)):
        same = sorted((each for each in summaries if (each.collective, each.type, each.redop, each.variant) ==
                       (collective, type_name, redop, variant)), key=lambda each: each.bytes)
        if same:
            found.append(svg_plots.Curve(variant, colour, [each.bytes / 2**20 for each in same], [each.busbw for each in same],
                                         [each.busbw_low for each in same], [each.busbw_high for each in same], ".-"))
    operation = "" if redop == "none" else f", {redop}"
    title = f"{NAMES.get(collective, collective)}, {type_name}{operation}" + (": emulated times" if emulated else "")
    last = "; ".join(f"{curve.name}: {curve.y[-1]:.3g} at the largest size" for curve in found)
    svg = svg_plots.lines(title, f"Bus bandwidth in GB/s over the size. {last}.", found, "size of the larger buffer, MiB",
                          "bus bandwidth, GB/s", log_x=True)
    return page.figure(svg, "Median of the repeats; the band is their range." +
                       (" Times of an interpreter on a CPU." if emulated else "")) if svg else ""


def _row(pair: Pair, emulated: bool) -> List[object]:
    native, sdp4bit = pair.native, pair.sdp4bit
    speedup = f"{pair.speedup:.2f} ({pair.speedup_low:.2f} to {pair.speedup_high:.2f})"
    error = "" if sdp4bit.relative_error is None else f"{sdp4bit.relative_error:.2e}"
    bytes_ = [show_bytes(each.bytes_between_nodes) if each.bytes_between_nodes is not None else "" for each in (native, sdp4bit)]
    return [NAMES.get(native.collective, native.collective), show_size(native.bytes), native.type, native.redop,
            f"{native.busbw:.4g}", f"{sdp4bit.busbw:.4g}", "not measured" if emulated else speedup, *bytes_, error]


def section_of(path: str, results: Results) -> str:
    """One file's section."""
    summaries = summarize(results.rows)
    cases: Dict[Tuple[str, str, str], None] = dict.fromkeys((each.collective, each.type, each.redop) for each in summaries)
    figures = [curves(summaries, *case, results.emulated) for case in list(cases)[:8]]
    rows = [_row(pair, results.emulated) for pair in pairs(results.rows)]
    listing = page.table(["collective", "size", "type", "operation", "busbw native", "busbw sdp4bit", "speed-up (range)",
                          "between nodes, native", "sdp4bit", "relative error"], rows, numbers=range(4, 10))
    return page.section(f"Bandwidth: {pathlib.Path(path).name}", page.paragraph(results.label),
                        page.paragraph("Bus bandwidth as nccl-tests defines it: by the bytes that the call asks for, not by those that "
                                       "travel. Bytes are of one rank and call.", "label"),
                        page.plots(figures), listing if rows else page.paragraph("No case was measured with and without the library."))

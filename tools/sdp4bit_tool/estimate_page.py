"""How a prediction is shown: lines for a terminal, a plot over network speeds, a page."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import List, Optional, Sequence, Tuple

from . import page, published, svg_plots
from .errors import UserError
from .estimate_model import Prediction, step
from .units import plural, show_bytes, show_seconds

NAMES = {"gradients": "gradients (ReduceScatter)", "weights": "weights (AllGather)"}


def gbit(speed: float) -> str:
    value = speed * 8 / 1e9
    return f"{value:,.0f} Gbit/s" if value >= 10 else f"{value:.2g} Gbit/s"


def verdict(prediction: Prediction) -> str:
    native, ours = prediction.native, prediction.sdp4bit
    if not prediction.shape.between:
        return (
            "Nothing to gain: the data-parallel ranks are in one node, where sdp4bit leaves their calls to NCCL "
            f"(a step stays at {show_seconds(native.total)})."
        )
    change = prediction.speedup
    faster = (
        f"{change:.2f} times as fast"
        if change >= 1.005
        else (
            f"{'faster' if change >= 1 else 'slower'} by under 0.5 %"
            if change >= 0.995
            else f"slower ({change:.2f} times as fast)"
        )
    )
    sentence = (
        f"Predicted: a step takes {show_seconds(ours.total)} with sdp4bit instead of {show_seconds(native.total)},"
        f" {faster}."
    )
    if abs(change - 1) < 0.05:
        sentence += " That is less than the model's error."
    if prediction.break_even:
        return (
            f"{sentence} Break-even: sdp4bit is faster below {gbit(prediction.break_even)} that a node really"
            " reaches."
        )
    return f"{sentence} Break-even: none, it is {'slower' if change >= 1 else 'faster'} at no network speed."


def rows(prediction: Prediction) -> List[Tuple[str, str, str]]:
    """(what, native, sdp4bit)."""
    native, ours = prediction.native, prediction.sdp4bit
    found = [("compute", show_seconds(native.compute), show_seconds(ours.compute))]
    for name, label in NAMES.items():
        found.append((label, show_seconds(native.phases[name].total), show_seconds(ours.phases[name].total)))
        if native.exposed[name] != native.phases[name].total:
            found.append(("  not hidden", show_seconds(native.exposed[name]), show_seconds(ours.exposed[name])))
    found.append(("  of these, kernels", "-", show_seconds(ours.kernels)))
    found.append(("step", show_seconds(native.total), show_seconds(ours.total)))
    found.append(("sent by a node to others", show_bytes(native.between), show_bytes(ours.between)))
    return found


def advice(prediction: Prediction) -> List[str]:
    """What to set, where one kind of communication is better left to NCCL."""
    found = []
    for name, variable in (
        ("weights", "SDP4BIT_COLLECTIVES=reduce_scatter"),
        ("gradients", "SDP4BIT_COLLECTIVES=all_gather"),
    ):
        lost = prediction.sdp4bit.exposed[name] - prediction.native.exposed[name]
        limit = prediction.break_even_of[name]
        if lost > 0.002 * prediction.native.total:
            below = f"; they gain below {gbit(limit)} that a node reaches" if limit else ""
            found.append(
                f"On this network the {name} alone would be {show_seconds(lost)} a step faster native"
                f" ({variable}){below}."
            )
    return found


def assumptions(prediction: Prediction, network: str, checked: Optional[Tuple[float, float]]) -> List[str]:
    shape, training, cluster = prediction.shape, prediction.training, prediction.cluster
    found = [
        f"Network: {network}.",
        f"In the node: {cluster.nvlink / 1e9:.0f} GB/s of a GPU, reached.",
        (
            f"Data-parallel communicators of {shape.ranks} ranks on {shape.nodes} nodes ({shape.local} of a node),"
            f" each with {shape.elements:.3g} parameters; a node's network is shared by"
            f" {plural(shape.sharing, 'of them', 'of them')}."
        ),
    ]
    if training.full_sharding:
        found.append(
            "Full sharding: gathers into buffers that do not stay are native; only gradients are compressed."
        )
    if training.overlap == 0:
        found.append("Nothing is hidden behind compute (--overlap says otherwise).")
    if checked:
        found.append(
            f"The bench's largest ReduceScatter: {checked[0]:.2f} times as fast by the model, {checked[1]:.2f} as"
            " measured."
        )
    found.append(
        f"A model, not a measurement: on the published table its speed-ups are {error_text()} (docs/estimate.md)."
    )
    return found


def error_text() -> str:
    """The model's error in words, from the published rows that were not fitted."""
    parts = []
    for each in published.PUBLISHED:
        errors = [check.error for check in published.check(each, published.fit_network(each)) if not check.fitted]
        parts.append(f"{min(errors) * 100:+.0f} to {max(errors) * 100:+.0f} % off on {each.name}")
    return " and ".join(parts)


def text(prediction: Prediction, network: str, checked: Optional[Tuple[float, float]]) -> List[str]:
    """For a terminal."""
    lines = [verdict(prediction), "", f"{'':28}{'native':>12}{'sdp4bit':>12}"]
    lines += [f"{what:28}{native:>12}{ours:>12}" for what, native, ours in rows(prediction)]
    return lines + [""] + advice(prediction) + assumptions(prediction, network, checked)


def _speeds(prediction: Prediction) -> List[float]:
    """Around the cluster's own speed and the break-even, in bytes a second."""
    places = [prediction.cluster.network] + ([prediction.break_even] if prediction.break_even else [])
    low, high = min(places) / 12, max(places) * 6
    return [low * (high / low) ** (i / 60) for i in range(61)]


def _curves(prediction: Prediction) -> Tuple[Sequence[float], List[svg_plots.Curve]]:
    speeds = _speeds(prediction)
    x = [speed * 8 / 1e9 for speed in speeds]
    curves = []
    for name, colour, ours in (("native", svg_plots.NATIVE, False), ("sdp4bit", svg_plots.SENT, True)):
        times = [
            step(
                replace(prediction.cluster, network=speed), prediction.training, prediction.native.compute, ours
            ).total
            * 1e3
            for speed in speeds
        ]
        curves.append(svg_plots.Curve(name, colour, x, times))
    return x, curves


def _draw(prediction: Prediction, axes: object) -> None:
    _, curves = _curves(prediction)
    svg_plots.draw_curves(
        axes,
        curves,
        "network that a node reaches, Gbit/s",
        "step, ms",
        log_x=True,
        marker=(prediction.cluster.network * 8 / 1e9, "this cluster"),
    )
    low = prediction.native.compute * 1e3
    axes.axhline(low, color=svg_plots.SOFT, linewidth=0.8, linestyle="--")  # type: ignore[attr-defined]
    axes.annotate(
        "compute alone",
        (1, low),
        xycoords=("axes fraction", "data"),
        xytext=(-4, -4),
        textcoords="offset points",  # type: ignore[attr-defined]
        ha="right",
        va="top",
        fontsize=9,
        color=svg_plots.SOFT,
    )
    axes.set_ylim(top=min(axes.get_ylim()[1], 4 * prediction.native.total * 1e3))  # type: ignore[attr-defined]


def _description(prediction: Prediction) -> str:
    _, curves = _curves(prediction)
    middle = len(curves[0].x) // 2
    return (
        "; ".join(
            f"{curve.name}: {curve.y[0]:.0f} ms at {curve.x[0]:.3g} Gbit/s, {curve.y[middle]:.0f} ms at"
            f" {curve.x[middle]:.3g}, {curve.y[-1]:.0f} ms at {curve.x[-1]:.3g}"
            for curve in curves
        )
        + "."
    )


TITLE = "Step time over network speed"


def write_plot(prediction: Prediction, path: str) -> None:
    """A picture of its own."""
    kind = pathlib.Path(path).suffix.lower().lstrip(".")
    if kind not in ("svg", "png"):
        raise UserError(f"--plot {path}: the name should end in .svg or .png")
    if not svg_plots.AVAILABLE:
        raise UserError(
            "--plot needs matplotlib, and this Python has none: install python3-matplotlib (Debian) or matplotlib"
            " (pip)"
        )
    with svg_plots.plot(TITLE, _description(prediction), height=3.6, coloured_by_page=False, picture=kind) as drawn:
        _draw(prediction, drawn.axes)
    _write(path, drawn.text.encode() if kind == "svg" else drawn.data)


def write_page(prediction: Prediction, network: str, checked: Optional[Tuple[float, float]], path: str) -> None:
    """Numbers, plot, assumptions, and the table of published rows."""
    figure = ""
    if svg_plots.AVAILABLE:
        with svg_plots.plot(TITLE, _description(prediction), height=3.6) as drawn:
            _draw(prediction, drawn.axes)
        figure = page.figure(drawn.text, "The compute of a step stays as it is; the network's speed varies.")
    content = [
        page.tiles(
            [
                ("speed-up", f"{prediction.speedup:.2f} ×", "of a whole step, predicted"),
                (
                    "step with sdp4bit",
                    show_seconds(prediction.sdp4bit.total),
                    f"native {show_seconds(prediction.native.total)}",
                ),
                (
                    "sent by a node in a step",
                    show_bytes(prediction.sdp4bit.between),
                    f"native {show_bytes(prediction.native.between)}",
                ),
                ("break-even", gbit(prediction.break_even) if prediction.break_even else "none", "network of a node"),
            ]
        ),
        page.plots([figure]) if figure else page.notes([("plain", svg_plots.MISSING)]),
        page.section("A step", page.table(["", "native", "sdp4bit"], rows(prediction))),
        page.notes([("warning", each) for each in advice(prediction)]),
        page.section(
            "Assumptions", page.notes([("plain", each) for each in assumptions(prediction, network, checked)])
        ),
        page.section("Against published numbers", *_published()),
    ]
    _write(
        path,
        page.page(
            "sdp4bit estimate",
            verdict(prediction),
            content,
            "Made by `sdp4bit estimate`. The formulas: docs/estimate.md.",
        ).encode(),
    )


def _published() -> List[str]:
    parts = [
        page.paragraph(
            "Speed-ups of whole steps that the authors of SDP4Bit published, and what this model says of the same"
            " jobs. One number is fitted for each cluster, the speed of its network, on the row that says so."
        )
    ]
    for each in published.PUBLISHED:
        checks = published.check(each, published.fit_network(each))
        parts.append(
            page.table(
                [each.name, "published", "predicted", "error"],
                [
                    [
                        f"{check.row.model}, TP{check.row.tensor}"
                        + (f" PP{check.row.pipeline}" if check.row.pipeline > 1 else ""),
                        f"{check.row.speedup:.2f}",
                        f"{check.predicted:.2f}",
                        "fitted" if check.fitted else f"{check.error * 100:+.0f} %",
                    ]
                    for check in checks
                ],
            )
        )
    return parts


def _write(path: str, content: bytes) -> None:
    try:
        pathlib.Path(path).write_bytes(content)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}; give another name") from None

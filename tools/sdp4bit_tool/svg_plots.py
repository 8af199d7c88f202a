"""Plots as SVG elements for a page: matplotlib draws them, the page's style gives them their colours.

Where matplotlib is missing every function returns an empty text, and pages say what to install.
"""

from __future__ import annotations

import html
import importlib.util
import io
import itertools
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, List, Optional, Sequence, Tuple

AVAILABLE = importlib.util.find_spec("matplotlib") is not None
MISSING = (
    "The plots are left out, because this Python has no matplotlib: install python3-matplotlib (Debian) or "
    "matplotlib (pip) and run the command again. The tables hold the same numbers."
)

# Each colour stands for a variable of the page's style; no two are equal, so the text of the SVG tells them apart.
_COLOURS = {
    "ink": "#010203",
    "soft": "#020304",
    "line": "#030405",
    "paper": "#fdfcfb",
    "native": "#8b939c",
    "sent": "#0b6e99",
    "passed": "#c9891a",
    "third": "#7a4fa3",
    "alarm": "#b3261e",
    "good": "#2e7d4f",
}
INK, SOFT, LINE, NATIVE, SENT, PASSED, THIRD, ALARM = (
    _COLOURS[name] for name in ("ink", "soft", "line", "native", "sent", "passed", "third", "alarm")
)
_numbers = itertools.count(1)
_STATIC = {"ink": "#1a1d21", "soft": "#5c636b", "line": "#d9dcdf", "paper": "#ffffff"}  # for files of their own


class Plot:
    """One figure with its axes; `text` is its SVG, or `data` its pixels, once the block is over."""

    def __init__(self, figure: Any, axes: Any) -> None:
        self.figure, self.axes, self.text, self.data = figure, axes, "", b""


def _settings() -> dict:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "sdp4bit",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": LINE,
        "axes.labelcolor": SOFT,
        "text.color": INK,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "legend.fontsize": 9,
        "axes.grid": True,
        "grid.color": LINE,
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "figure.constrained_layout.use": True,
    }


@contextmanager
def plot(
    title: str,
    description: str,
    height: float = 3.2,
    width: float = 5.6,
    coloured_by_page: bool = True,
    picture: str = "svg",
) -> Iterator[Plot]:
    """Draws into `axes`. `description` is for those who do not see it. `picture` may be png, for a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(_settings()), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of characters that its font lacks; the page's font has them
        figure, axes = pyplot.subplots(figsize=(width, height))
        axes.set_title(title)
        drawn = Plot(figure, axes)
        try:
            yield drawn
            data = io.BytesIO()
            if picture == "svg":
                figure.savefig(
                    data, format="svg", transparent=coloured_by_page, metadata={"Date": None, "Creator": None}
                )
                svg = data.getvalue().decode()
                drawn.text = (
                    _element(svg, title, description) if coloured_by_page else _fixed(svg, title, description)
                )
            else:
                _recolour(figure)
                figure.savefig(data, format=picture, dpi=160, facecolor="white")
                drawn.data = data.getvalue()
        finally:
            pyplot.close(figure)


def _recolour(figure: Any) -> None:
    """A picture of pixels has no variables: the placeholders become what they stand for."""
    from matplotlib.colors import to_hex

    known = {_COLOURS[name]: colour for name, colour in _STATIC.items()}
    for artist in figure.findobj():
        for part in ("color", "facecolor", "edgecolor"):
            getter, setter = getattr(artist, f"get_{part}", None), getattr(artist, f"set_{part}", None)
            if getter is None or setter is None:
                continue
            try:
                replacement = known.get(to_hex(getter()))
            except (TypeError, ValueError):
                continue
            if replacement:
                setter(replacement)


def _with_title(svg: str, title: str, description: str, attributes: str) -> str:
    number = next(_numbers)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    prefix = f"p{number}-"  # ids are the page's, not the element's
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'(xlink:href="|url\()#', rf"\1#{prefix}", svg)
    head = (
        f'<svg role="img" aria-labelledby="{prefix}title {prefix}text" {attributes}',
        (
            f'<title id="{prefix}title">{html.escape(title)}</title><desc'
            f' id="{prefix}text">{html.escape(description)}</desc>'
        ),
    )
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height)="[^"]*"', "", opening) if not attributes else opening
    return opening.replace("<svg", head[0].rstrip(), 1) + ">" + head[1] + rest.strip()


def _element(svg: str, title: str, description: str) -> str:
    svg = _with_title(svg, title, description, "")
    for name, colour in _COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg


def _fixed(svg: str, title: str, description: str) -> str:
    svg = _with_title(svg, title, description, 'style="background: #ffffff"')
    for name, colour in _STATIC.items():
        svg = svg.replace(_COLOURS[name], colour)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + svg + "\n"


@dataclass
class Curve:
    """A line of a plot, with a band where `low` and `high` are given."""

    name: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    style: str = "-"


def short(text: str, length: int = 38) -> str:
    """A label that leaves room for the bars, and is no formula to matplotlib."""
    return (text if len(text) <= length else text[: length - 1] + "…").replace("$", r"\$")


def stacked_bars(
    title: str,
    description: str,
    labels: Sequence[str],
    series: Sequence[Tuple[str, str, Sequence[float]]],
    unit: str,
    pairs: Optional[Sequence[Tuple[str, str, Sequence[float]]]] = None,
) -> str:
    """Horizontal bars, a row for each label: `series` above, `pairs` below, each a stack of (name, colour, values)."""
    if not AVAILABLE or not labels:
        return ""
    stacks: List[Sequence[Tuple[str, str, Sequence[float]]]] = [series] + ([pairs] if pairs else [])
    thick = 0.72 / len(stacks)
    with plot(title, description, height=1.15 + (0.42 if pairs else 0.3) * len(labels)) as drawn:
        named = set()
        for place, stack in enumerate(stacks):
            left = [0.0] * len(labels)
            positions = [row + (place - (len(stacks) - 1) / 2) * thick for row in range(len(labels))]
            for name, colour, values in stack:
                drawn.axes.barh(
                    positions, values, thick * 0.92, left=left, color=colour, label=None if name in named else name
                )
                named.add(name)
                left = [a + b for a, b in zip(left, values)]
        drawn.axes.set_yticks(range(len(labels)), [short(label) for label in labels])
        drawn.axes.invert_yaxis()
        drawn.axes.set_xlabel(unit)
        _few_ticks(drawn.axes.xaxis)
        drawn.axes.grid(axis="y", visible=False)
        drawn.axes.tick_params(axis="y", length=0, labelcolor=INK)
        if len(named) > 1:
            _legend_above(drawn.axes, title)
    return drawn.text


def lines(
    title: str,
    description: str,
    curves: Sequence[Curve],
    x_label: str,
    y_label: str,
    log_x: bool = False,
    height: float = 3.2,
    ticks: Sequence[float] = (),
) -> str:
    """Curves with their bands. `ticks`: the places on a logarithmic x axis that get a number."""
    if not AVAILABLE or not any(curve.x for curve in curves):
        return ""
    with plot(title, description, height) as drawn:
        draw_curves(drawn.axes, curves, x_label, y_label, log_x, ticks=ticks)
    return drawn.text


def draw_curves(
    axes: Any,
    curves: Sequence[Curve],
    x_label: str,
    y_label: str,
    log_x: bool = False,
    marker: Optional[Tuple[float, str]] = None,
    ticks: Sequence[float] = (),
) -> None:
    """`marker`: a place on the x axis with a name."""
    for curve in curves:
        if curve.low and curve.high:
            axes.fill_between(curve.x, curve.low, curve.high, color=curve.colour, alpha=0.22, linewidth=0)
        axes.plot(curve.x, curve.y, curve.style, color=curve.colour, linewidth=1.8, markersize=4, label=curve.name)
    if log_x:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, ticks)
    else:
        _few_ticks(axes.xaxis)
    axes.set_ylim(bottom=0, top=1.15 * max(max(curve.high or curve.y) for curve in curves) or 1)
    if marker:
        axes.axvline(marker[0], color=SOFT, linewidth=1, linestyle=":")
        axes.annotate(
            marker[1],
            (marker[0], 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -12),
            textcoords="offset points",
            fontsize=9,
            color=SOFT,
        )
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if len(curves) > 1:
        axes.legend()


def _number(value: float, _: Any = None) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:g}"


def _plain_ticks(axis: Any, ticks: Sequence[float]) -> None:
    """`ticks`, or 1, 2, 5, 10, ... in place of powers of ten."""
    from matplotlib import ticker

    axis.set_major_locator(
        ticker.FixedLocator(ticks[:: 1 + len(ticks) // 9]) if ticks else ticker.LogLocator(subs=(1.0, 2.0, 5.0))
    )
    axis.set_major_formatter(ticker.FuncFormatter(_number))
    axis.set_minor_locator(ticker.NullLocator())


def _few_ticks(axis: Any) -> None:
    """Room for large numbers."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.MaxNLocator(5))
    axis.set_major_formatter(ticker.FuncFormatter(_number))


def ranks(
    title: str, description: str, values: Sequence[float], odd: Sequence[int], y_label: str, x_label: str
) -> str:
    """A bar for each rank, or points where they are many; `odd` ones are marked."""
    if not AVAILABLE or not values:
        return ""
    with plot(title, description) as drawn:
        places = list(range(len(values)))
        colours = [ALARM if i in set(odd) else SENT for i in places]
        if len(values) <= 64:
            drawn.axes.bar(places, values, color=colours, width=0.8)
        else:
            drawn.axes.scatter(places, values, c=colours, s=9)
        drawn.axes.set_ylim(bottom=0, top=max(max(values) * 1.15, 1e-9))
        drawn.axes.set_xlabel(x_label)
        drawn.axes.set_ylabel(y_label)
        drawn.axes.xaxis.get_major_locator().set_params(integer=True)
    return drawn.text


def _legend_above(axes: Any, title: str) -> None:
    """Between the title and the axes, where no bar is."""
    axes.set_title(title, pad=24)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncol=3, borderaxespad=0, handlelength=1.2, columnspacing=1.2
    )

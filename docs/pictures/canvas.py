"""A drawing of boxes, arrows and text that becomes an SVG file; the same calls always give the same bytes."""

from __future__ import annotations

from xml.sax.saxutils import escape

INK = "#24292f"
MUTED = "#57606a"
LINE = "#8c959f"
FONT = "Helvetica, Arial, sans-serif"


class Canvas:
    """Coordinates are pixels from the upper left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []
        self.colors: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, lines: str = "", fill: str = "#ffffff",
            border: str = LINE, size: int = 12, bold: bool = False) -> None:
        """A box with text in its middle, one line for each line of `lines`."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{fill}" stroke="{border}"/>'
        )
        texts = lines.split("\n") if lines else []
        step = size + 4
        first = y + height / 2 + size * 0.36 - step * (len(texts) - 1) / 2
        for number, text in enumerate(texts):
            self.text(x + width / 2, first + number * step, text, size=size, anchor="middle", bold=bold)

    def text(self, x: float, y: float, text: str, size: int = 12, anchor: str = "start", color: str = INK,
             bold: bool = False) -> None:
        """One line, whose base line is at y."""
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{color}"{weight}>'
            f"{escape(text)}</text>"
        )

    def arrow(self, *points: tuple[float, float], color: str = INK, dashed: bool = False, width: float = 1.5) -> None:
        """A line through the points with a head at the last one."""
        if color not in self.colors:
            self.colors.append(color)
        path = " L ".join(f"{x:g} {y:g}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<path d="M {path}" fill="none" stroke="{color}" stroke-width="{width:g}"{dash} '
            f'marker-end="url(#head{self.colors.index(color)})"/>'
        )

    def svg(self) -> str:
        """The whole file. Its ground is white, so that it can be read on dark pages too."""
        heads = "\n".join(
            f'<marker id="head{number}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M 0 0 L 10 5 L 0 10 z" fill="{color}"/></marker>'
            for number, color in enumerate(self.colors)
        )
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="{FONT}" role="img">\n'
            f"<title>{escape(self.title)}</title>\n<defs>\n{heads}\n</defs>\n"
            f'<rect width="{self.width}" height="{self.height}" rx="6" fill="#ffffff"/>\n{body}\n</svg>\n'
        )

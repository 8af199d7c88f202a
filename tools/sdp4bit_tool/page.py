"""A self-contained HTML page: its frame, its style for light, dark and paper, and tables."""

from __future__ import annotations

import html
from typing import Iterable, List, Optional, Sequence

# The plots take their colours from these variables too, so a page has one palette.
_STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfb; --ink: #1a1d21; --soft: #5c636b; --line: #d9dcdf; --card: #f2f3f4;
  --native: #8b939c; --sent: #0b6e99; --passed: #c9891a; --third: #7a4fa3; --alarm: #b3261e; --good: #2e7d4f; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181b; --ink: #e8eaec; --soft: #a3abb3; --line: #3a4047;
  --card: #1f2428; --native: #7f8890; --sent: #56b6e0; --passed: #e3ae4f; --third: #b795dc; --alarm: #ff8a80;
  --good: #7fcf9d; } }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --line: #bbb; --card: #f4f4f4;
  --native: #8b939c; --sent: #0b6e99; --passed: #c9891a; --third: #7a4fa3; --alarm: #b3261e; --good: #2e7d4f; }
  details::details-content { content-visibility: visible; } .scroll { overflow: visible; } table { font-size: .7rem; }
  figure, section > p, tr { break-inside: avoid; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans",
  sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 1.15rem; font-weight: 600; color: var(--soft); margin: 0 0 10px; }
h2 { font-size: 1.2rem; margin: 44px 0 6px; padding-top: 14px; border-top: 1px solid var(--line); }
p { margin: 8px 0; max-width: 78ch; }
.verdict { font-size: 1.5rem; line-height: 1.35; max-width: 52ch; margin: 0 0 18px; }
.label { color: var(--soft); font-size: .9rem; max-width: 90ch; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 10px; margin: 0 0 20px; padding: 0; }
.tiles div { background: var(--card); border-radius: 8px; padding: 12px 14px; }
.tiles dt { color: var(--soft); font-size: .85rem; }
.tiles dd { margin: 2px 0 0; font-size: 1.45rem; font-weight: 600; }
.tiles small { display: block; font-size: .8rem; font-weight: 400; color: var(--soft); line-height: 1.35; }
.notes { list-style: none; padding: 0; margin: 8px 0; max-width: 95ch; }
.notes li { border-left: 4px solid var(--passed); background: var(--card); padding: 8px 12px; margin: 6px 0;
  border-radius: 0 6px 6px 0; overflow-wrap: anywhere; }
.notes li.alarm { border-color: var(--alarm); }
.notes li.plain { border-color: var(--line); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 26px; margin: 16px 0; }
figure { margin: 0; min-width: 0; }
figure svg { width: 100%; height: auto; display: block; max-width: 580px; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: 4px; max-width: 78ch; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .9rem; margin: 10px 0; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); }
td:not(.number) { min-width: 8ch; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td small { color: var(--soft); }
code { font: .92em ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
details { margin: 8px 0; } summary { cursor: pointer; color: var(--soft); }
footer { margin-top: 48px; color: var(--soft); font-size: .85rem; border-top: 1px solid var(--line); padding-top: 10px;
  overflow-wrap: anywhere; }
@media (max-width: 560px) { main { padding: 16px 14px 40px; } .verdict { font-size: 1.25rem; }
  td:not(.number) { min-width: 11ch; }
  .tiles { grid-template-columns: 1fr 1fr; } .tiles dd { font-size: 1.2rem; } }
"""


def escape(text: object) -> str:
    """Text as HTML."""
    return html.escape(str(text))


class Markup(str):
    """HTML, not text: cells and items that are this are taken as they are."""


def as_markup(value: object) -> str:
    return value if isinstance(value, Markup) else escape(value)


def code(text: object) -> Markup:
    return Markup(f"<code>{escape(text)}</code>")


def paragraph(text: object, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{as_markup(text)}</p>"


def tiles(items: Iterable[Sequence[object]]) -> str:
    """Numbers for the first screen: (what, number, note)."""
    parts = [
        f"<div><dt>{as_markup(what)}</dt><dd>{as_markup(number)}<small>{as_markup(note)}</small></dd></div>"
        for what, number, note in items
    ]
    return f'<dl class="tiles">{"".join(parts)}</dl>'


def notes(items: Iterable[Sequence[str]]) -> str:
    """(kind, text) each: kind is alarm, warning or plain."""
    parts = [f'<li class="{kind}">{as_markup(text)}</li>' for kind, text in items]
    return f'<ul class="notes">{"".join(parts)}</ul>' if parts else ""


def table(
    head: Sequence[str], rows: Sequence[Sequence[object]], numbers: Optional[Iterable[int]] = None, caption: str = ""
) -> str:
    """`numbers`: columns that are right-aligned; by default all but the first."""
    right = set(range(1, len(head)) if numbers is None else numbers)

    def cell(tag: str, column: int, value: object) -> str:
        kind = ' class="number"' if column in right else ""
        scope = ' scope="col"' if tag == "th" else ""
        return f"<{tag}{kind}{scope}>{as_markup(value)}</{tag}>"

    lines: List[str] = [
        '<div class="scroll" tabindex="0"><table>' if len(head) > 4 else '<div class="scroll"><table>'
    ]
    if caption:
        lines.append(f"<caption>{escape(caption)}</caption>")
    lines.append(
        "<thead><tr>" + "".join(cell("th", i, value) for i, value in enumerate(head)) + "</tr></thead><tbody>"
    )
    lines += ["<tr>" + "".join(cell("td", i, value) for i, value in enumerate(row)) + "</tr>" for row in rows]
    return "\n".join(lines) + "</tbody></table></div>"


def details(summary: str, content: str) -> str:
    """Folded away on screens."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def figure(svg: str, caption: object) -> str:
    return f"<figure>{svg}<figcaption>{as_markup(caption)}</figcaption></figure>"


def plots(figures: Iterable[str]) -> str:
    """Figures side by side where there is room."""
    parts = [each for each in figures if each]
    return f'<div class="plots">{"".join(parts)}</div>' if parts else ""


def section(title: str, *content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n" + "\n".join(part for part in content if part) + "</section>"


def page(title: str, verdict: object, content: Iterable[str], footer: str) -> str:
    """The whole file."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style></head><body><main>",
            f"<h1>{escape(title)}</h1>",
            f'<p class="verdict">{as_markup(verdict)}</p>',
            *content,
            f"<footer>{as_markup(footer)}</footer></main></body></html>",
            "",
        ]
    )

"""One self-contained HTML page of a study."""
from __future__ import annotations

import html
from typing import Any

import curves
from schemes import COMMON
from sentences import of_study
from summary import Summary
from tables import HEADERS, cells

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { border-bottom: 1px solid #ddd; padding: 4px 8px; text-align: left; vertical-align: top; }
th { background: #f4f4f4; } td.worse { color: #b03a00; font-weight: 600; } td.better { color: #006a4e; }
svg { max-width: 100%; height: auto; } code, pre { font-size: 13px; background: #f4f4f4; padding: 1px 4px; }
pre { overflow-x: auto; padding: 8px; } li { margin: 2px 0; }
"""


def machine_text(machine: dict[str, Any]) -> str:
    return f"{machine['cores']} cores ({machine['processor']}), emulated cluster of 2 nodes with 2 GPUs each"


def settings_of(summary: Summary) -> dict[str, str]:
    """What is the same for all runs."""
    result = summary.results[summary.rows[0].scheme.name][summary.seeds[0]]
    settings = {name: value for name, value in result["settings"].items() if name not in ("snapshot_every",)}
    shown = {name.replace("_", " "): str(value) for name, value in settings.items()}
    shown.update({f"version of {name}": value for name, value in result["versions"].items()})
    versions = {found["library"]["version"] for runs in summary.results.values() for found in runs.values() if found["library"]}
    shown["version of sdp4bit"] = ", ".join(sorted(versions)) or "-"
    return shown


def _modes(summary: Summary) -> list[str]:
    """Stage and own shard of each class of weights, as the library's statistics had them at the end of the first seed."""
    said = []
    for row in summary.rows:
        facts = summary.results[row.scheme.name][summary.seeds[0]]["library"]
        if not facts:
            continue
        classes = "; ".join(
            f"AllGather of {found['count']}: {found['stage']}, own shard {found['own_shard']}, "
            f"{found['differences']} differences, {found['jumps']} jumps"
            for found in facts["classes"]
        )
        native = ", ".join(
            f"{function.replace('_', ' ')} {reason.replace('_', ' ')} {number}"
            for function in ("reduce_scatter", "all_gather")
            for reason, number in facts[function]["native"].items()
        )
        said.append(f"{row.scheme.title}: {classes or 'no class of weights'}. Native: {native or 'none'}.")
    return said


def _table(summary: Summary) -> str:
    head = "".join(f"<th>{html.escape(header)}</th>" for header in HEADERS)
    body = ""
    for row in summary.rows:
        body += "<tr>"
        for header, cell in zip(HEADERS, cells(summary, row)):
            marked = f' class="{cell}"' if header == "verdict" and cell in ("worse", "better") else ""
            body += f"<td{marked}>{html.escape(cell)}</td>"
        body += "</tr>\n"
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>\n" for line in lines) + "</ul>"


def make_page(summary: Summary, command: str, machine: dict[str, Any]) -> str:
    seeds = ", ".join(map(str, summary.seeds))
    variables = [
        f"{row.scheme.title}: "
        + (" ".join(f"{name}={value}" for name, value in {**COMMON, **row.scheme.variables}.items()) or "defaults")
        for row in summary.rows
        if row.scheme.preloaded
    ]
    settings = [f"{name}: {value}" for name, value in settings_of(summary).items()]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>sdp4bit: training</title><style>{_STYLE}</style></head><body>
<h1>Training with 4-bit communication</h1>
<p>A small GPT, trained by ZeRO-1 for {summary.steps} steps with each scheme, seed{"s" if len(summary.seeds) > 1 else ""} {seeds}. The program is the same in all
runs and knows nothing of sdp4bit; it is preloaded or not. Machine: {html.escape(machine_text(machine))}. Times of an emulated
cluster say nothing about GPUs and are not shown.</p>
<h2>What the numbers say</h2>
{_list(of_study(summary))}
<h2>At the end</h2>
{_table(summary)}
<p>Loss in nats a character on text that was not trained on, of the weights that all ranks gathered, mean over the seeds. ±: what noise
alone does to a mean gap, in 99 of 100 studies. Spread: standard deviation of the gap over the seeds. KB: thousand bytes of all ranks together, everything counted (also the first,
native calls and the agreement between ranks).</p>
{curves.gaps(summary)}
<h2>On the way</h2>
{curves.losses(summary)}
{curves.gap_over_time(summary)}
<h2>What was in force</h2>
<p>Statistics of the library at the end of the first seed's runs:</p>
{_list(_modes(summary))}
<h2>Settings</h2>
<p>The command:</p><pre>{html.escape(command)}</pre>
<p>Variables of the schemes (SDP4BIT_MIN_BYTES is lowered because the model is small):</p>
{_list(variables)}
<p>Of all runs:</p>
{_list(settings)}
</body></html>
"""

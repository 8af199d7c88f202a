"""The sections of a job's report: numbers as plots and tables."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from . import page, svg_plots
from .job import Group, Job, Traffic, balance, course_of, mean_error, outliers
from .reasons import explain
from .report_findings import Finding
from .stats_files import FUNCTIONS, SAMPLE_KINDS, Process
from .units import plural, show_bytes, show_count, show_percent, show_seconds

MOST_BARS = 12
FUNCTION_NAMES = {"reduce_scatter": "ReduceScatter (gradients)", "all_gather": "AllGather (weights)"}
KIND_NAMES = {
    "gradient_first_exchange": "gradients, first exchange",
    "gradient_between_nodes": "gradients, between nodes",
    "weight_difference": "weight differences",
}


def head(job: Job) -> str:
    """The first screen's numbers."""
    between, inside = job.links.between, job.links.inside
    traffic = between if between.before else inside
    where = "between nodes" if between.before else "in the node"
    share = f"{show_bytes(traffic.after)} of {show_bytes(traffic.before)}"
    fewer = f"{traffic.before / traffic.after:.1f} ×" if traffic.after > 0 else "–"
    errors = [(KIND_NAMES[kind], mean_error(job, kind)) for kind in SAMPLE_KINDS]
    sampled = [(name, error) for name, error in errors if error is not None]
    nodes = plural(job.nodes, "node") if job.nodes else "nodes not agreed on"
    time = f", over {show_seconds(job.seconds)}" if job.seconds else ""
    items: List[Tuple[object, object, object]] = [
        (f"fewer bytes {where}", fewer, share),
        (
            "calls compressed",
            show_percent(job.compressed, job.calls),
            f"{show_count(job.compressed)} of {show_count(job.calls)}",
        ),
        ("ranks", show_count(len(job.processes)), f"{nodes}{time}"),
    ]
    if sampled:
        name, error = max(sampled, key=lambda each: each[1])
        items.append(("largest sampled error", f"{error:.3f}", f"relative, of {name}"))
    return page.tiles(items)


def warnings(found: Sequence[Finding]) -> str:
    return page.notes(found) if found else page.paragraph("No warnings.", "label")


def _name(group: Group, number: int) -> str:
    return group.name or (f"unnamed #{number + 1}" if group.ranks else "closed")


def _named(job: Job) -> List[Tuple[str, Group]]:
    names = [_name(group, i) for i, group in enumerate(job.groups)]
    twice = {name for name in names if names.count(name) > 1}
    return [
        (f"{name} ({group.ranks} ranks)" if name in twice and group.ranks else name, group)
        for name, group in zip(names, job.groups)
    ]


def _bars(job: Job, between: bool) -> str:
    rows = [(name, group.links.between if between else group.links.inside) for name, group in _named(job)]
    rows = sorted((row for row in rows if row[1].before > 0), key=lambda row: -row[1].before)
    if not rows:
        return ""
    shown = [row for row in rows[: MOST_BARS - 1] if row[1].before > 0.01 * rows[0][1].before]
    if len(shown) + 1 < len(rows):  # many, or too small to be seen
        rest = Traffic()
        for _, traffic in rows[len(shown) :]:
            rest.add(traffic)
        rows = shown + [(f"{len(rows) - len(shown)} others", rest)]
    where = "between nodes" if between else "in the nodes"
    unit, power = _unit(max(traffic.before for _, traffic in rows))
    labels = [name for name, _ in rows]
    before = [("NCCL alone", svg_plots.NATIVE, [traffic.before / power for _, traffic in rows])]
    after = [
        ("compressed calls, sent", svg_plots.SENT, [traffic.sent / power for _, traffic in rows]),
        ("native calls", svg_plots.PASSED, [traffic.passed_on / power for _, traffic in rows]),
    ]
    text = "; ".join(
        f"{name}: {show_bytes(traffic.after)} instead of {show_bytes(traffic.before)}" for name, traffic in rows
    )
    svg = svg_plots.stacked_bars(
        f"Bytes sent {where}",
        f"For each communicator, all ranks together. {text}.",
        labels,
        before,
        f"{unit} sent {where}, all ranks",
        after,
    )
    return (
        page.figure(svg, f"Upper bar: what NCCL would have sent {where} at least. Lower bar: what was sent.")
        if svg
        else ""
    )


def _unit(largest: float) -> Tuple[str, float]:
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if largest >= power:
            return unit, power
    return "bytes", 1.0


def traffic(job: Job) -> str:
    rows = []
    for name, group in _named(job):
        calls = sum(function.all_calls for function in group.functions.values())
        compressed = sum(function.compressed for function in group.functions.values())
        between, inside = group.links.between, group.links.inside
        rows.append(
            [
                name,
                group.shape,
                show_count(calls),
                show_percent(compressed, calls),
                show_bytes(between.before),
                show_bytes(between.after),
                show_bytes(inside.before),
                show_bytes(inside.after),
            ]
        )
    listing = page.table(
        ["communicator", "shape", "calls", "compressed", "between nodes: NCCL", "sent", "in nodes: NCCL", "sent"],
        rows,
        numbers=range(2, 8),
    )
    if len(rows) > MOST_BARS:
        listing = page.details(f"All {len(rows)} kinds of communicators", listing)
    note = (
        "Bytes of ReduceScatter and AllGather, summed over all ranks. NCCL's numbers are the least that it could"
        " send: sums made in the node first, and each shard crossing once to each other node; its rings send more."
        " Calls that stayed native count with NCCL's number on both sides."
    )
    return page.section(
        "Bytes on the links",
        page.paragraph(note, "label"),
        page.plots([_bars(job, True), _bars(job, False)]),
        listing,
    )


def reasons(job: Job) -> str:
    found = job.native_reasons()
    if not found:
        return page.section("Calls that stayed native", page.paragraph("None: every call was compressed."))
    labels = [explain(reason).short for reason, _ in found]
    series = [
        (FUNCTION_NAMES[name].split(" ")[0], colour, [float(calls[name]) for _, calls in found])
        for name, colour in zip(FUNCTIONS, (svg_plots.SENT, svg_plots.THIRD))
    ]
    text = "; ".join(f"{label}: {sum(calls.values())}" for label, (_, calls) in zip(labels, found))
    svg = svg_plots.stacked_bars("Native calls by reason", f"{text}.", labels, series, "calls, all ranks")
    rows = [
        [
            page.Markup(
                f"{page.escape(explain(reason).short)}"
                f" ({page.code(reason)})<br><small>{page.escape(explain(reason).advice)}</small>"
            ),
            *(show_count(calls[name]) for name in FUNCTIONS),
        ]
        for reason, calls in found
    ]
    return page.section(
        "Calls that stayed native",
        page.paragraph(
            f"{show_count(job.calls - job.compressed)} of {plural(job.calls, 'call')}, all ranks together.", "label"
        ),
        page.plots([page.figure(svg, "A call has one reason: the first that applies.") if svg else ""]),
        page.table(["reason", "ReduceScatter", "AllGather"], rows),
    )


def classes(job: Job) -> str:
    rows, stages = [], {"difference": 0, "learning": 0, "native": 0}
    for name, group in _named(job):
        members = [member for _, member in group.members]
        for i in range(max((len(member.classes) for member in members), default=0)):
            same = [member.classes[i] for member in members if i < len(member.classes)]
            first = same[0]
            counted = {stage: sum(each.stage == stage for each in same) for stage in stages}
            stage = " / ".join(
                f"{stage} on {number}" if len(same) != number else stage
                for stage, number in counted.items()
                if number
            )
            stages[max(counted, key=lambda key: counted[key])] += 1
            largest = {
                key: max(each.numbers.get(key, 0) for each in same)
                for key in ("slots", "calls", "differences", "jumps", "refreshes", "relearned")
            }
            ledger = sum(each.numbers.get("ledger_bytes", 0) for each in same)
            rows.append(
                [
                    name,
                    f"{show_count(first.count)} {first.type}",
                    stage or first.stage,
                    first.last_event,
                    *(show_count(number) for number in largest.values()),
                    show_bytes(ledger / len(same)),
                ]
            )
    if not rows:
        return ""
    text = (
        f"{plural(len(rows), 'class', 'classes')}, that is size and type of a shard on a communicator. Sent as 4-bit"
        f" differences: {stages['difference']}; still learning whether buffers come again: {stages['learning']};"
        f" native for good: {stages['native']}."
    )
    listing = page.table(
        [
            "communicator",
            "shard",
            "stage",
            "led there",
            "slots",
            "calls",
            "differences",
            "jumps",
            "refreshes",
            "learned again",
            "ledger of a rank",
        ],
        rows,
        numbers=range(4, 11),
    )
    return page.section(
        "Classes of weight gathers",
        page.paragraph(text),
        listing if len(rows) <= 24 else page.details(f"All {len(rows)}", listing),
    )


def errors(job: Job) -> str:
    period = next((int(value) for value in job.option_values().get("SDP4BIT_SAMPLE_ERROR", {}) if value.isdigit()), 0)
    figures, rows = [], []
    for kind, colour in zip(SAMPLE_KINDS, (svg_plots.THIRD, svg_plots.SENT, svg_plots.PASSED)):
        mean = mean_error(job, kind)
        if mean is None:
            continue
        samples = sum(process.samples[kind].samples for process in job.processes)
        rows.append([KIND_NAMES[kind], show_count(samples), f"{mean:.4f}"])
        drawn = 0
        for name, group in _named(job):
            course = course_of(group, kind)
            if course is None or drawn == 4:
                continue
            drawn += 1
            x = [(i + 0.5) * course.samples_per_point * max(period, 1) for i in range(len(course.middle))]
            svg = svg_plots.lines(
                f"Error of {KIND_NAMES[kind]}: {svg_plots.short(name, 20)}",
                f"{plural(len(x), 'point')}, from {course.middle[0]:.4f} to {course.middle[-1]:.4f}; over the ranks"
                f" between {min(course.low):.4f} and {max(course.high):.4f}.",
                [svg_plots.Curve("", colour, x, course.middle, course.low, course.high, ".-")],
                "compressed calls of the communicator" if period else "samples",
                "relative error",
                height=2.7,
            )
            if svg:
                each = plural(course.samples_per_point, "sampled call")
                figures.append(
                    page.figure(
                        svg, f"A point is {each} of every rank; the band is from the least to the largest rank."
                    )
                )
    if not rows:
        return page.section(
            "Sampled error",
            page.paragraph(
                "No errors were sampled. SDP4BIT_SAMPLE_ERROR=100 measures every 100th call of each communicator.",
                "label",
            ),
        )
    note = (
        "What decoding leaves of what a message was to carry, relative (root of summed squares). On bell-shaped data"
        " the default formats make about 0.10 with 4 bits, 0.01 with 8 bits and 0.13 for weight differences, whose"
        " error is part of the next difference and does not add up. Differences are relative to the difference, not"
        " to the weights."
    )
    return page.section(
        "Sampled error",
        page.paragraph(note, "label"),
        page.plots(figures),
        page.table(["message", "samples", "mean error"], rows),
    )


def rank_balance(job: Job) -> str:
    sent = balance(job)
    between = any(links.between.after for _, links in sent)
    values = [(links.between if between else links.inside).after for _, links in sent]
    if len(values) < 2 or not max(values):
        return ""
    unit, power = _unit(max(values))
    found = outliers(job)
    odd = {id(each.process) for each in found}
    places = [i for i, (process, _) in enumerate(sent) if id(process) in odd]
    where = "between nodes" if between else "in the node"
    svg = svg_plots.ranks(
        f"Sent {where} by each rank",
        f"{len(values)} ranks, from {show_bytes(min(values))} to {show_bytes(max(values))}; {len(places)} are "
        "unlike the others.",
        [value / power for value in values],
        places,
        f"{unit} sent {where}",
        "rank" if all(process.job_rank >= 0 for process, _ in sent) else "process",
    )
    rows = [
        [
            each.process.label,
            each.process.host,
            each.what,
            *(
                show_bytes(number) if "bytes" in each.what else show_count(int(number))
                for number in (each.value, each.usual)
            ),
        ]
        for each in found[:20]
    ]
    text = f"From {show_bytes(min(values))} to {show_bytes(max(values))} a rank. " + (
        "Marked ones are unlike the others." if places else "No rank is unlike the others."
    )
    return page.section(
        "Balance of ranks",
        page.paragraph(text),
        page.plots([page.figure(svg, "All of a rank's communicators together.") if svg else ""]),
        page.table(["who", "host", "what", "value", "median"], rows, numbers=(3, 4)) if rows else "",
    )


def settings(job: Job) -> str:
    values = job.option_values()
    if not values:
        return ""
    default = {name: is_default for process in job.processes for name, (_, is_default) in process.options.items()}
    rows = {True: [], False: []}  # type: ignore[var-annotated]
    for name, held in values.items():
        shown = page.Markup(
            "<br>".join(
                str(page.code(value or "-")) + (f" on {plural(len(who), 'rank')}" if len(held) > 1 else "")
                for value, who in held.items()
            )
        )
        rows[default[name] and len(held) == 1].append([page.code(name), shown])
    head_row = ["variable", "value in force"]
    return page.section(
        "Settings in force",
        page.table(head_row, rows[False], numbers=()) if rows[False] else page.paragraph("All at their defaults."),
        (
            page.details(
                f"{plural(len(rows[True]), 'variable')} at the default", page.table(head_row, rows[True], numbers=())
            )
            if rows[True]
            else ""
        ),
    )


def memory(job: Job) -> str:
    kinds = ("workspace_bytes", "ledger_bytes", "sample_bytes", "record_bytes")
    rows = [
        [
            kind.split("_")[0] + (" (pinned host memory)" if kind == "record_bytes" else ""),
            show_bytes(max(process.memory.get(kind, 0) for process in job.processes)),
            show_bytes(sum(process.memory.get(kind, 0) for process in job.processes)),
        ]
        for kind in kinds
    ]
    note = "Held when the files were written; communicators that are closed hold nothing."
    return page.section(
        "Memory", page.paragraph(note, "label"), page.table(["what", "most of one rank", "all ranks"], rows)
    )


def files(processes: Sequence[Process], job: Job) -> str:
    used = {process.path for process in job.processes}
    rows = [
        [
            process.path,
            process.label,
            process.host,
            process.version,
            "yes" if process.path in used else "no, another job's",
        ]
        for process in processes
    ]
    return page.section(
        "Files",
        page.details(
            plural(len(rows), "file"), page.table(["file", "of", "host", "version", "used"], rows, numbers=())
        ),
    )


def all_sections(job: Job) -> List[str]:
    """In the order of the page."""
    return [traffic(job), reasons(job), errors(job), classes(job), rank_balance(job), settings(job), memory(job)]

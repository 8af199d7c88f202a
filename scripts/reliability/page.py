"""The page of figures: one section for each kind of test, from the lines of JSON that the tests printed."""
from __future__ import annotations

import dataclasses
from typing import Any, Callable

import results as kept

Figures = dict[str, Any]

HEAD = """# Reliability

What was done to the library on the emulated cluster, and what became of it. `scripts/reliability.sh` runs the long tests and
writes this page from what they print; `--only` makes single tables or rows anew, so each says which commit it was made at. Where
it says "sample", the figures are of the short test that every run of the tests has (labels `faults`, `fuzz`, `integrity`,
`agreement`, `load`), and give way to the long one's once that has passed.
"""

FAULTS = {
    "fail": "a call of CUDA or NCCL fails",
    "kill": "the rank is killed there",
    "stop": "the rank stops there for 3 seconds",
    "exit": "the rank calls exit() there",
    "malloc": "an allocation of host memory fails",
    "file": "a call of the system fails: statistics, lines, names of hosts, threads (no space, no rights, read-only, ...)",
    "line": "the log cannot be written: stderr is full, or nobody reads it",
    "disk": "the files of statistics may not grow (RLIMIT_FSIZE)",
    "absent": "a rank makes no call any more",
    "version": "a rank has another version of the library",
    "without": "a rank runs without the library",
    "fork": "the program forks, and the child calls exit()",
    "term": "SIGTERM ends a rank in the middle of a step",
    "crash": "SIGSEGV in the middle of a step, for which the program has a handler",
    "signal": "a signal comes every millisecond, without SA_RESTART",
}


@dataclasses.dataclass(frozen=True)
class Found:
    """A line of JSON, and which run it is of."""

    figures: Figures
    run: str  # "long" or "sample"

    def __getitem__(self, name: str) -> Any:
        return self.figures[name]

    def get(self, name: str, otherwise: Any) -> Any:
        return self.figures.get(name, otherwise)


def kind_of(figures: Figures) -> str:
    """Which section a line belongs to; "" for JSON that is none of ours."""
    for kind, section in SECTIONS.items():
        if section["mark"] in figures:
            return kind
    return ""


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_number(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _faults(found: list[Found]) -> str:
    counts: dict[str, list[int]] = {}
    runs: dict[str, set[str]] = {}
    for each in found:
        for kind, count in each["by_kind"].items():
            runs.setdefault(kind, set()).add(each.run)
            sums = counts.setdefault(kind, [0, 0, 0])
            for place, name in enumerate(("injected", "finished_right", "ended_with_errors")):
                sums[place] += count[name]
    rows = [[title, *counts[kind], " and ".join(sorted(runs[kind]))] for kind, title in FAULTS.items() if kind in counts]
    total = sum(each["injected"] for each in found)
    how = (
        "each of the library's call sites of CUDA and NCCL fails at its first and its last call, and is once where a rank dies,\n"
        "stops or leaves"
        if runs.get("fail") == {"long"}
        else "a sample of the library's call sites of CUDA and NCCL, which fail or are where a rank dies, stops or leaves\n"
        "(all: `--only faults`)"
    )
    settings = max(each.get("settings", 0) for each in found) or "several"
    return (
        f"A job of 2 nodes with 2 ranks runs gradients and weights under {settings} settings. "
        f"{_number(total)} faults, one a run:\n{how}; calls of the system; "
        "and whole ranks.\nIn no run did a rank hang, crash, or get a wrong result without an error.\n\n"
        + _table(["fault", "injected", "all ranks finished right", "ended with errors", "run"], rows)
    )


OTHER_FINDINGS = {  # of readers whose names begin so
    "statistics": "of statistics, exceptions other than the tool's own",
    "kernels": "of kernels, accesses that the emulated device refuses",
    "headers": "of headers in flight, accesses that the emulated device refuses, crashes, and hangs",
}


def _fuzz(found: list[Found]) -> str:
    rows = [
        [each["fuzz"], each["seconds"], each["inputs"], each.get("edges", "-"), each["findings"], each.run]
        for each in sorted(found, key=lambda each: str(each["fuzz"]))
    ]
    others = [what for reader, what in OTHER_FINDINGS.items() if any(str(each["fuzz"]).startswith(reader) for each in found)]
    lines = ["Findings are what the address and undefined-behaviour sanitizers report", *others]
    return (
        ";\n".join(lines)
        + ".\nSeconds are the processor's.\n\n"
        + _table(["reader", "seconds", "inputs", "edges of the code reached", "findings", "run"], rows)
    )


def _integrity(found: list[Found]) -> str:
    columns = {
        "shape": "shape",
        "flips": "bits flipped",
        "errors": "ended with an error",
        "unread": "in bytes that nobody reads",
        "silent_nan": "NaN in silence",
        "other_numbers": "other numbers in silence",
    }
    rows = [[*(each.get(name, "-") for name in columns), each.run] for each in found]
    head = [*columns.values(), "run"]
    return "`SDP4BIT_CHECKSUM=1`: one bit of one transfer is flipped in a run.\n\n" + _table(head, rows)


def _agreement(found: list[Found]) -> str:
    last = found[-1]
    rows = [
        [each["name"], each["ranks"], each["states"], each["transitions"], each["depth"], "yes" if each["complete"] else "no"]
        for each in last["scenarios"]
    ]
    return (
        f"The decisions of the library, explored exhaustively ([how](agreement.md)): {_number(last['violations'])} violations;\n"
        f"{last['mistakes_found']} of {last['mistakes']} planted mistakes of the model found."
        + (" These figures are of the sample, whose\nscenarios are smaller.\n\n" if last.run == "sample" else "\n\n")
        + _table(["scenario", "ranks", "states", "transitions", "depth", "complete"], rows)
    )


def _load(found: list[Found]) -> str:
    columns = (
        "load",
        "calls_of_a_rank",
        "communicators",
        "threads",
        "slots",
        "gradients_compressed",
        "weights_compressed",
        "seconds",
    )
    rows = [[*(each.get(name, "-") for name in columns), each.run] for each in found]
    head = [*(name.replace("_", " ") for name in columns), "run"]
    return (
        "Gathered weights are compared bit for bit; device memory is the same after the last call as once all was agreed, host\n"
        "memory within 512 KiB.\n\n" + _table(head, rows)
    )


SECTIONS: dict[str, dict[str, Any]] = {
    "faults": {"mark": "faults", "title": "Faults", "text": _faults},
    "integrity": {"mark": "flips", "title": "Integrity", "text": _integrity},
    "fuzz": {"mark": "fuzz", "title": "Bad input", "text": _fuzz},
    "load": {"mark": "load", "title": "Load", "text": _load},
    "agreement": {"mark": "states_3_ranks", "title": "Agreement", "text": _agreement},
}
SOURCE_BUGS = "agreement_finds_"  # tests that explore a source with a planted bug: they print nothing, and pass


def _made(entries: kept.Results) -> str:
    """Which commit a table tells of, and when it was measured; nothing of figures that are not kept."""
    names_of: dict[tuple[str, str], list[str]] = {}
    for name, entry in sorted(entries.items()):
        if entry["commit"]:
            names_of.setdefault((entry["date"], entry["commit"]), []).append(name)
    if not names_of:
        return ""
    if len(names_of) == 1:
        ((date, commit),) = names_of
        return f"\nMade on {date} at commit `{commit}`.\n"
    lines = [
        f"- {date} at commit `{commit}`: {', '.join(f'`{name}`' for name in names)}"
        for (date, commit), names in sorted(names_of.items())
    ]
    return "\nMade on\n\n" + "\n".join(lines) + "\n"


def _source_bugs(results: kept.Results) -> str:
    found = {name: entry for name, entry in results.items() if name.startswith(SOURCE_BUGS)}
    if not found:
        return ""
    names = ", ".join(name[len(SOURCE_BUGS) :].replace("_", " ") for name in sorted(found))
    return (
        f"\n{len(found)} bugs planted in the library's own sources, of which the exploration found each: {names}.\n"
        + _made(found)
    )


def _findings(findings: list[Figures]) -> str:
    rows = [[each["found_by"], each["what"], ", ".join(f"`{name}`" for name in each["kept_by"])] for each in findings]
    return (
        "\n## Findings\n\nWhat these tests found, and what fails since then if it comes back: a test, or an input that the fuzzer\n"
        "begins with.\n\n" + _table(["found by", "what it was", "kept by"], rows)
    )


def _run_of(name: str) -> str:
    return "long" if kept.samples_of(name) else "sample"


def markdown(results: kept.Results, findings: list[Figures]) -> str:
    text = HEAD
    results = kept.without_replaced_samples(results)
    for kind, section in SECTIONS.items():
        entries = {
            name: entry for name, entry in sorted(results.items()) if any(kind_of(each) == kind for each in entry["figures"])
        }
        found = [
            Found(figures, _run_of(name))
            for name, entry in entries.items()
            for figures in entry["figures"]
            if kind_of(figures) == kind
        ]
        describe: Callable[[list[Found]], str] = section["text"]
        if found:
            text += f"\n## {section['title']}\n\n{describe(found)}{_made(entries)}"
            if kind == "agreement":
                text += _source_bugs(results)
    return text + (_findings(findings) if findings else "")

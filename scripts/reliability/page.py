"""The page of figures: one section for each kind of test, from the lines of JSON that the tests print."""
from __future__ import annotations

from typing import Any, Callable

Figures = dict[str, Any]

HEAD = """# Reliability

What was done to the library on the emulated cluster, and what became of it. Made by `scripts/reliability.sh`, which runs the
long tests; every run of the tests has samples of them (labels `faults`, `fuzz`, `integrity`, `agreement`, `load`).
"""


def kind_of(figures: Figures) -> str:
    """Which section a line belongs to; "" for JSON that is none of ours."""
    for kind, section in SECTIONS.items():
        if section["mark"] in figures:
            return kind
    return ""


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_number(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _faults(found: list[Figures]) -> str:
    titles = {
        "fail": "a call of CUDA or NCCL fails",
        "kill": "the rank is killed there",
        "stop": "the rank stops there for 3 seconds",
        "exit": "the rank calls exit() there",
        "malloc": "an allocation of host memory fails",
    }
    rows = [
        [titles.get(kind, kind), count["injected"], count["finished_right"], count["ended_with_errors"]]
        for figures in found
        for kind, count in sorted(figures["by_kind"].items(), key=lambda item: list(titles).index(item[0]))
    ]
    total = sum(figures["injected"] for figures in found)
    return (
        f"A job of 2 nodes with 2 ranks runs gradients and weights under four settings. {_number(total)} faults, one a run, at "
        "the library's own calls: each call site at its first and its last call. In no run did a rank hang, crash, keep device "
        "memory after its abort, or get a wrong result without an error.\n\n"
        + _table(["fault", "injected", "all ranks finished right", "ended with errors"], rows)
    )


def _fuzz(found: list[Figures]) -> str:
    rows = [
        [figures["fuzz"], figures["seconds"], figures["inputs"], figures.get("edges", "-"), figures["findings"]]
        for figures in sorted(found, key=lambda each: str(each["fuzz"]))
    ]
    return (
        "Under the address and undefined-behaviour sanitizers (the tool's JSON: any exception but the tool's own; kernels, and "
        "headers in flight: the emulated GPU's memory checking).\n\n"
        + _table(["reader", "seconds", "inputs", "edges of the code reached", "findings"], rows)
        + "\nFound while these were made, each kept in the corpus or as a test: a fatbin whose sizes wrap around made the emulator's "
        "reader loop for ever; a count of registers took all memory.\n"
    )


def _integrity(found: list[Figures]) -> str:
    rows = [[each["shape"], each["flips"], each["errors"], each["unread"], each["other_numbers"]] for each in found]
    return (
        "`SDP4BIT_CHECKSUM=1`: a small training again and again, each time with one bit flipped in one transfer that a rank "
        "gets from another. Unread is what opens connections and carries nothing.\n\n"
        + _table(["shape", "flips", "ended with an error", "unread", "another number"], rows)
    )


def _agreement(found: list[Figures]) -> str:
    last = found[-1]
    rows = [
        [each["name"], each["ranks"], each["states"], each["transitions"], each["depth"], "yes" if each["complete"] else "no"]
        for each in last["scenarios"]
    ]
    return (
        f"The decisions of the library, explored exhaustively ([how](agreement.md)): {_number(last['violations'])} violations; "
        f"{last['mistakes_found']} of {last['mistakes']} planted mistakes found.\n\n"
        + _table(["scenario", "ranks", "states", "transitions", "depth", "complete"], rows)
    )


def _load(found: list[Figures]) -> str:
    rows = [
        [figures["load"], *(f"{name.replace('_', ' ')}: {_number(value)}" for name, value in list(figures.items())[1:])]
        for figures in found
    ]
    width = max(len(row) for row in rows)
    return _table(["load", *[""] * (width - 1)], [row + [""] * (width - len(row)) for row in rows])


SECTIONS: dict[str, dict[str, Any]] = {
    "faults": {"mark": "faults", "title": "Faults", "text": _faults},
    "integrity": {"mark": "flips", "title": "Integrity", "text": _integrity},
    "fuzz": {"mark": "fuzz", "title": "Bad input", "text": _fuzz},
    "load": {"mark": "load", "title": "Load", "text": _load},
    "agreement": {"mark": "states_3_ranks", "title": "Agreement", "text": _agreement},
}


def markdown(results: list[Figures]) -> str:
    text = HEAD
    for kind, section in SECTIONS.items():
        found = [figures for figures in results if kind_of(figures) == kind]
        describe: Callable[[list[Figures]], str] = section["text"]
        if found:
            text += f"\n## {section['title']}\n\n{describe(found)}"
    return text

"""The page of figures: one section for each kind of test, from the lines of JSON that the tests print."""
from __future__ import annotations

from typing import Any, Callable

Figures = dict[str, Any]

HEAD = """# Reliability

What was done to the library on the emulated cluster, and what became of it. `scripts/reliability.sh` runs the long tests and
writes this page from what they print; every run of the tests has samples of them (labels `faults`, `fuzz`, `integrity`,
`agreement`, `load`).

What these tests found is mended and has a test or an input that is kept: fatbins whose sizes wrap around, or whose PTX asks for
all memory, hung or ended the emulator; a damaged handshake could put control characters into the log; memory that an aborted
communicator had retired was lost where `cudaThreadExchangeStreamCaptureMode` or an allocation of host memory failed at the wrong
moment (two of the runs below, before that was mended); a refused record still told its number of slots.
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
        [titles[kind], count["injected"], count["finished_right"], count["ended_with_errors"]]
        for figures in found
        for kind, count in sorted(figures["by_kind"].items(), key=lambda item: list(titles).index(item[0]))
    ]
    total = sum(figures["injected"] for figures in found)
    return (
        f"A job of 2 nodes with 2 ranks runs gradients and weights under four settings. {_number(total)} faults, one a run, at\n"
        "the library's own calls: each call site fails at its first and its last call, and is once where a rank dies, stops or\n"
        "leaves. In no run did a rank hang, crash, or get a wrong result without an error.\n\n"
        + _table(["fault", "injected", "all ranks finished right", "ended with errors"], rows)
    )


def _fuzz(found: list[Figures]) -> str:
    rows = [
        [figures["fuzz"], figures["seconds"], figures["inputs"], figures.get("edges", "-"), figures["findings"]]
        for figures in sorted(found, key=lambda each: str(each["fuzz"]))
    ]
    return (
        "Under the address and undefined-behaviour sanitizers (the tool's JSON: any exception but the tool's own).\n\n"
        + _table(["reader", "seconds", "inputs", "edges of the code reached", "findings"], rows)
    )


def _integrity(found: list[Figures]) -> str:
    columns = {
        "shape": "shape",
        "flips": "bits flipped",
        "errors": "ended with an error",
        "unread": "in bytes that nobody reads",
        "silent_nan": "NaN in silence",
        "other_numbers": "other numbers in silence",
    }
    rows = [[figures.get(name, "-") for name in columns] for figures in found]
    return "`SDP4BIT_CHECKSUM=1`: one bit of one transfer is flipped in a run.\n\n" + _table(list(columns.values()), rows)


def _agreement(found: list[Figures]) -> str:
    last = found[-1]
    rows = [
        [each["name"], each["ranks"], each["states"], each["transitions"], each["depth"], "yes" if each["complete"] else "no"]
        for each in last["scenarios"]
    ]
    return (
        f"The decisions of the library, explored exhaustively ([how](agreement.md)): {_number(last['violations'])} violations;\n"
        f"{last['mistakes_found']} of {last['mistakes']} planted mistakes found.\n\n"
        + _table(["scenario", "ranks", "states", "transitions", "depth", "complete"], rows)
    )


def _load(found: list[Figures]) -> str:
    columns = ("calls_of_a_rank", "communicators", "threads", "slots", "gradients_compressed", "weights_compressed", "seconds")
    rows = [[figures.get(name, "-") for name in columns] for figures in found]
    return (
        "Gathered weights are compared bit for bit; device memory is the same after the last call as once all was agreed, host\n"
        "memory within 512 KiB.\n\n" + _table([name.replace("_", " ") for name in columns], rows)
    )


SECTIONS: dict[str, dict[str, Any]] = {
    "faults": {"mark": "faults", "title": "Faults", "text": _faults},
    "integrity": {"mark": "flips", "title": "Integrity", "text": _integrity},
    "fuzz": {"mark": "fuzz", "title": "Bad input", "text": _fuzz},
    "load": {"mark": "load", "title": "Load", "text": _load},
    "agreement": {"mark": "states_3_ranks", "title": "Agreement", "text": _agreement},
}


def markdown(results: list[Figures]) -> str:
    """A `note` among the results says how they came about, where one run of the script did not make them all."""
    text = HEAD + "".join(f"\n{figures['note']}\n" for figures in results if "note" in figures)
    for kind, section in SECTIONS.items():
        found = [figures for figures in results if kind_of(figures) == kind]
        describe: Callable[[list[Figures]], str] = section["text"]
        if found:
            text += f"\n## {section['title']}\n\n{describe(found)}"
    return text

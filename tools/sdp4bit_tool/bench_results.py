"""The results of `sdp4bit bench`: their JSON and CSV, and what repeated measurements say together."""

from __future__ import annotations

import csv
import io
import json
import math
import pathlib
import statistics
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Dict, List, Optional, Tuple

from .errors import UserError
from .stats_files import BadFile, load_json, shown, to_real
from .units import plural

FORMAT = 1
KEY = "sdp4bit_bench"
VARIANTS = ("native", "sdp4bit")
COLLECTIVES = ("reduce_scatter", "all_gather")


@dataclass
class Row:
    """One measurement: the mean of a program's calls of one size. Bandwidths in 1e9 bytes a second."""

    collective: str
    type: str
    redop: str
    bytes: int  # of the larger buffer of a rank
    variant: str
    repeat: int
    time_us: float
    algbw: float
    busbw: float
    bytes_in_node: Optional[float] = None
    bytes_between_nodes: Optional[float] = None
    relative_error: Optional[float] = None


@dataclass
class Results:
    """A sweep. `emulated`: bytes and errors are real, times are those of an interpreter on a CPU."""

    emulated: bool
    nodes: int
    gpus: int  # per node
    program: str
    version: str = ""  # of the library
    started: int = 0
    rows: List[Row] = field(default_factory=list)
    one_machine: bool = False  # its ranks ran where the command did: nodes were only told apart

    def add(self, rows: List[Row]) -> None:
        """Only the emulated cluster's NCCL counts the bytes of a call: who has them was not measured on GPUs."""
        self.rows += rows
        self.emulated = self.emulated or any(row.bytes_between_nodes is not None for row in rows)

    @property
    def has_no_network(self) -> bool:
        """Whether nothing stood between the nodes."""
        return self.one_machine and self.nodes > 1

    @property
    def bytes_where(self) -> str:
        """Of which links the bytes are worth showing."""
        return "between nodes" if self.nodes > 1 else "in the node"

    def bytes_of(self, summary: "Summary") -> Optional[float]:
        return summary.bytes_between_nodes if self.nodes > 1 else summary.bytes_in_node

    @property
    def label(self) -> str:
        if self.emulated:
            return (
                f"Emulated: {self.nodes} x {self.gpus} GPUs played by a CPU. Byte counts and errors are real, "
                "times are not."
            )
        if self.has_no_network:
            return f"Measured on one machine that plays {self.nodes} nodes: no network between them."
        return f"Measured on {plural(self.nodes, 'node')} with {plural(self.gpus, 'GPU')} each."


@dataclass
class Summary:
    """Repeated measurements of one case: medians, and the range of the bandwidth."""

    collective: str
    type: str
    redop: str
    bytes: int
    variant: str
    repeats: int
    time_us: float
    busbw: float
    busbw_low: float
    busbw_high: float
    bytes_in_node: Optional[float]
    bytes_between_nodes: Optional[float]
    relative_error: Optional[float]

    @property
    def case(self) -> Tuple[str, str, str, int]:
        return (self.collective, self.type, self.redop, self.bytes)


def _known(values: List[Optional[float]]) -> Optional[float]:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def summarize(rows: List[Row]) -> List[Summary]:
    """In the order in which cases came."""
    cases: Dict[Tuple[str, str, str, int, str], List[Row]] = {}
    for row in rows:
        cases.setdefault((row.collective, row.type, row.redop, row.bytes, row.variant), []).append(row)
    return [
        Summary(
            *case,
            len(same),
            statistics.median(row.time_us for row in same),
            statistics.median(row.busbw for row in same),
            min(row.busbw for row in same),
            max(row.busbw for row in same),
            _known([row.bytes_in_node for row in same]),
            _known([row.bytes_between_nodes for row in same]),
            _known([row.relative_error for row in same]),
        )
        for case, same in cases.items()
    ]


@dataclass
class Pair:
    """A case with and without the library. Only repeats that both have are compared, one by one."""

    native: Summary
    sdp4bit: Summary
    speedup: float  # median of the ratios of paired repeats
    speedup_low: float
    speedup_high: float


def pairs(rows: List[Row]) -> List[Pair]:
    summaries = {(*each.case, each.variant): each for each in summarize(rows)}
    times = {(row.collective, row.type, row.redop, row.bytes, row.variant, row.repeat): row.time_us for row in rows}
    found = []
    for native in summaries.values():
        if native.variant != "native" or (*native.case, "sdp4bit") not in summaries:
            continue
        ratios = [
            time / times[(*native.case, "sdp4bit", key[5])]
            for key, time in times.items()
            if key[:5] == (*native.case, "native") and times.get((*native.case, "sdp4bit", key[5]), 0) > 0
        ]
        if ratios:
            found.append(
                Pair(
                    native, summaries[(*native.case, "sdp4bit")], statistics.median(ratios), min(ratios), max(ratios)
                )
            )
    return found


def _row(where: str, data: Any) -> Row:
    if not isinstance(data, dict):
        raise BadFile(f"{where} is no object")
    values: Dict[str, Any] = {}
    for each in fields(Row):
        value = data.get(each.name)
        optional = each.name in ("bytes_in_node", "bytes_between_nodes", "relative_error")
        if each.name in ("collective", "type", "redop", "variant"):
            good = isinstance(value, str)
        else:
            good = (optional and value is None) or (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and math.isfinite(to_real(value, f"{where}.{each.name}"))
                and value >= 0
            )
        if not good:
            raise BadFile(f"{where}.{each.name} is {shown(value)}")
        values[each.name] = value
    row = Row(**values)
    if row.variant not in VARIANTS:
        raise BadFile(f"{where}.variant is '{row.variant}', and native and sdp4bit are known")
    return row


def is_results(data: Any) -> bool:
    return isinstance(data, dict) and KEY in data


def parse_results(data: Any) -> Results:
    """The content of a JSON file, checked; BadFile says what is wrong."""
    if not is_results(data):
        raise BadFile("it is no result of `sdp4bit bench`")
    if data[KEY] != FORMAT:
        raise BadFile(
            f"it has format {shown(data[KEY])} of `sdp4bit bench`, and this command knows {FORMAT}"
        )
    for name in ("nodes", "gpus"):
        if not isinstance(data.get(name), int) or not 1 <= data[name] < 1 << 31:
            raise BadFile(f"{name} is {shown(data.get(name))}, not a whole number from 1")
    rows, started = data.get("rows"), data.get("started")
    if not isinstance(rows, list):
        raise BadFile("rows is no list")
    return Results(
        bool(data.get("emulated")),
        data["nodes"],
        data["gpus"],
        str(data.get("program", "")),
        str(data.get("version", "")),
        started if isinstance(started, int) else 0,
        [_row(f"rows[{i}]", row) for i, row in enumerate(rows)],
        data.get("one_machine") is True,
    )


def read_results(path: str) -> Results:
    """For a command that needs just this file."""
    try:
        return parse_results(load_json(path))
    except BadFile as error:
        raise UserError(f"{path}: {error}; give a file that `sdp4bit bench -o FILE.json` wrote") from None


def to_json(results: Results) -> str:
    head = {
        KEY: FORMAT,
        "emulated": results.emulated,
        "one_machine": results.one_machine,
        "label": results.label,
        "nodes": results.nodes,
        "gpus": results.gpus,
        "program": results.program,
        "version": results.version,
        "started": results.started,
    }
    return json.dumps({**head, "rows": [asdict(row) for row in results.rows]}, indent=1) + "\n"


def to_csv(results: Results) -> str:
    """Head and rows; the label of emulated times is a column, so that no row is without it."""
    text = io.StringIO()
    names = [each.name for each in fields(Row)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["nodes", "gpus", "times", *names])
    for row in results.rows:
        values = asdict(row)
        writer.writerow(
            [
                results.nodes,
                results.gpus,
                "emulated" if results.emulated else "one machine" if results.has_no_network else "measured",
                *("" if values[name] is None else values[name] for name in names),
            ]
        )
    return text.getvalue()


def write_results(results: Results, path: str) -> None:
    """JSON, or CSV where the name says so; whole or not at all."""
    target = pathlib.Path(path)
    draft = target.with_name(target.name + ".new")
    try:
        draft.write_text(to_csv(results) if target.suffix == ".csv" else to_json(results), encoding="utf-8")
        draft.replace(target)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}; give another -o") from None

"""Reads the library's JSON statistics of any number of processes; docs/statistics.md has their meaning."""

from __future__ import annotations

import glob
import json
import pathlib
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .errors import UserError

SCHEMA = 1
FUNCTIONS = ("reduce_scatter", "all_gather")
LARGEST = (1 << 64) - 1  # the library counts in 64 bits
LARGEST_FILE = 256 << 20  # bytes; thousands of times what the library writes
SAMPLE_KINDS = ("gradient_first_exchange", "gradient_between_nodes", "weight_difference")


class BadFile(Exception):
    """Its text says in one line what is wrong with one file; others may still be good."""

    def __init__(self, text: str) -> None:
        # Names come from the file: they must neither begin a line of their own nor control the terminal.
        super().__init__("".join(each if each.isprintable() else "?" for each in text))


@dataclass
class Function:
    """What became of one function's calls."""

    calls: Dict[str, int] = field(default_factory=dict)
    counters: Dict[str, int] = field(default_factory=dict)

    def count(self, counter: str) -> int:
        return self.counters.get(counter, 0)

    @property
    def all_calls(self) -> int:
        return sum(self.calls.values())

    @property
    def compressed(self) -> int:
        return self.calls.get("compressed", 0)


@dataclass
class Samples:
    """Sampled errors of one kind of message."""

    samples: int = 0
    last: float = 0.0
    mean: float = 0.0
    samples_per_point: int = 1
    course: List[float] = field(default_factory=list)


@dataclass
class GatherClass:
    """A class of weight gathers."""

    count: int
    type: str
    stage: str
    last_event: str
    numbers: Dict[str, int]


@dataclass
class Communicator:
    """One communicator, or several old ones together (`merged`)."""

    id: int
    name: str
    ranks: int
    rank: int
    nodes: int
    device: int
    agreement: str
    why: str
    merged: int
    functions: Dict[str, Function]
    samples: Dict[str, Samples]
    classes: List[GatherClass]


@dataclass
class Process:
    """One file."""

    path: str
    version: str
    process: int
    host: str
    job_rank: int
    job_ranks: int
    started: Optional[int]
    written: Optional[int]
    functions: Dict[str, Function]
    samples: Dict[str, Samples]
    memory: Dict[str, int]
    files_not_written: int
    options: Dict[str, Tuple[str, bool]]  # value, and whether it is the default
    communicators: List[Communicator]
    logged: Dict[str, int] = field(default_factory=dict)  # errors and warnings

    @property
    def label(self) -> str:
        """How people call it."""
        if self.job_rank >= 0:
            return f"rank {self.job_rank}"
        return f"process {self.process}" + (f" on {self.host}" if self.host else "")


def _printable(text: str) -> str:
    """Without what no page can hold: lone surrogates and control characters."""
    return "".join(
        each if each.isprintable() or each.isspace() and each >= " " else "?"
        for each in text.encode("utf-8", "replace").decode()
    )


def shown(value: Any) -> str:
    """The beginning of any JSON, for a message."""
    try:
        return json.dumps(value)[:40]
    except RecursionError:
        return "nested too deeply"


def to_real(value: Any, name: str) -> float:
    """A JSON number as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadFile(f"{name} is {shown(value)}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise BadFile(f"{name} is {shown(value)}..., a number that is too large") from None


class _Reader:
    """One JSON object, whose fields are asked for by type; a field that is not there has a default."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise BadFile(f"{where or 'it'} should be a JSON object")
        self.value, self.where = value, where

    def _name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def number(self, key: str, default: int = 0, least: int = 0) -> int:
        value = self.value.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadFile(f"{self._name(key)} is {shown(value)}, not a whole number from {least}")
        if value > LARGEST:
            raise BadFile(f"{self._name(key)} is {shown(value)}, a number that is too large")
        return value

    def real(self, key: str) -> float:
        value = self.value.get(key, 0.0)
        if value is None:  # how the library writes NaN
            return float("nan")
        return to_real(value, self._name(key))

    def text(self, key: str) -> str:
        value = self.value.get(key, "")
        if not isinstance(value, str):
            raise BadFile(f"{self._name(key)} is {shown(value)}, not a text")
        return _printable(value)

    def object(self, key: str) -> "_Reader":
        return _Reader(self.value.get(key, {}), self._name(key))

    def list(self, key: str) -> List[Any]:
        value = self.value.get(key, [])
        if not isinstance(value, list):
            raise BadFile(f"{self._name(key)} is no list")
        return value

    def objects(self, key: str) -> List["_Reader"]:
        return [_Reader(item, f"{self._name(key)}[{i}]") for i, item in enumerate(self.list(key))]

    def numbers(self, skip: Iterable[str] = ()) -> Dict[str, int]:
        """All fields that are whole numbers."""
        kept = {
            key: value
            for key, value in self.value.items()
            if key not in skip and not isinstance(value, (dict, list, str))
        }
        return {key: self.number(key) for key in kept}


def _function(reader: _Reader) -> Function:
    return Function(reader.object("calls").numbers(), reader.numbers(skip=("all_calls",)))


def _functions(reader: _Reader) -> Dict[str, Function]:
    return {name: _function(reader.object(name)) for name in FUNCTIONS}


def _samples(reader: _Reader) -> Dict[str, Samples]:
    kinds = reader.object("sampled_error")
    found = {}
    for kind in SAMPLE_KINDS:
        each = kinds.object(kind)
        points = [point for point in each.list("course") if isinstance(point, (int, float))]
        course = [to_real(point, f"{each.where}.course") for point in points]
        found[kind] = Samples(
            each.number("samples"),
            each.real("last"),
            each.real("mean"),
            each.number("samples_per_point", 1, least=1),
            course,
        )
    return found


def _class(reader: _Reader) -> GatherClass:
    return GatherClass(
        reader.number("count"),
        reader.text("type"),
        reader.text("stage"),
        reader.text("last_event"),
        reader.numbers(skip=("count",)),
    )


def _communicator(reader: _Reader) -> Communicator:
    return Communicator(
        reader.number("id"),
        reader.text("name"),
        reader.number("ranks"),
        reader.number("rank"),
        reader.number("nodes"),
        reader.number("device", -1, least=-1),
        reader.text("agreement"),
        reader.text("why"),
        reader.number("merged"),
        _functions(reader),
        _samples(reader),
        [_class(each) for each in reader.objects("classes")],
    )


def parse_process(path: str, data: Any) -> Process:
    """One file's content, checked."""
    reader = _Reader(data, "")
    schema = reader.number("schema")
    if schema != SCHEMA:
        raise BadFile(
            f"it has schema {schema}, and this command knows {SCHEMA}: use the command of the library's version "
            f"({reader.text('version') or 'unknown'})"
        )
    options = {
        each.text("name"): (each.text("value"), each.value.get("default") is True)
        for each in reader.objects("options")
    }
    time = {key: reader.number(key) or None for key in ("started", "written")}
    return Process(
        path,
        reader.text("version"),
        reader.number("process"),
        reader.text("host"),
        reader.number("job_rank", -1, least=-1),
        reader.number("job_ranks", -1, least=-1),
        time["started"],
        time["written"],
        _functions(reader),
        _samples(reader),
        reader.object("memory").numbers(),
        reader.object("dropped").number("files_not_written"),
        options,
        [_communicator(each) for each in reader.objects("communicators")],
        reader.object("logged").numbers(),
    )


def find_files(names: Iterable[str]) -> List[str]:
    """The files that names, folders (their *.json, at any depth) and patterns stand for, each once."""
    found: Dict[str, None] = {}
    for name in names:
        path = pathlib.Path(name)
        if path.is_dir():
            inside = sorted(str(file) for file in path.rglob("*.json") if file.is_file())
            if not inside:
                raise UserError(f"{name}: this folder holds no *.json; give the folder that SDP4BIT_STATS names")
        elif path.exists():
            inside = [name]
        else:
            inside = sorted(file for file in glob.glob(name, recursive=True) if pathlib.Path(file).is_file())
            if not inside:
                raise UserError(
                    f"{name}: there is no such file, and nothing matches it as a pattern; give what "
                    "SDP4BIT_STATS names, with * in place of %h, %p and %r"
                )
        found.update(dict.fromkeys(inside))
    return list(found)


def load_json(path: str) -> Any:
    """A file's JSON, or BadFile with the reason."""
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise BadFile(f"it is larger than {LARGEST_FILE >> 20} MiB, which no file of ours is")
        text = content.decode("utf-8")
        if not text.strip():
            raise BadFile("it is empty")
        return json.loads(text)
    except OSError as error:
        raise BadFile(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFile("it is no text") from None
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        raise BadFile(
            f"it ends in the middle (line {error.lineno})"
            if at_end
            else f"it is no JSON (line {error.lineno}: {error.msg})"
        ) from None
    except ValueError:  # Python's own limit of digits
        raise BadFile("it holds a number that is too long") from None
    except RecursionError:
        raise BadFile("it is no JSON of ours: it is nested too deeply") from None

"""The texts in the library's sources that can become part of a line in the log, and where they stand."""

from __future__ import annotations

import dataclasses
import pathlib
import re

LEVEL_OF = {"log_error": "error", "log_warn": "warn", "log_notice": "notice", "log_info": "info", "log_trace": "trace"}

_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|R"(?P<fence>[^(\s]*)\((?P<raw>.*?)\)(?P=fence)"'
    r'|"(?P<string>(?:\\.|[^"\\\n])*)"'
    r"|'(?:\\.|[^'\\\n])+'"
    r"|(?P<include>^[ \t]*#[^\n]*(?:\\\n[^\n]*)*)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<other>[^\s\w])",
    re.DOTALL | re.MULTILINE,
)
# Of printf: what is put in at run time.
CONVERSION = re.compile(r"%%|%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|j|z|t)?[diouxXeEfgGcsp]")
# Stands for such a value inside a text.
HOLE = "\x00"


@dataclasses.dataclass(frozen=True)
class Message:
    """One literal, adjacent ones joined; `calls` are the names of the calls around it, the innermost last."""

    file: str
    line: int
    text: str
    calls: tuple[str, ...]

    @property
    def level(self) -> str | None:
        return next((LEVEL_OF[call] for call in reversed(self.calls) if call in LEVEL_OF), None)

    def pieces(self) -> list[str]:
        """What stands between the values that are put in at run time."""
        return [piece for piece in map(squeeze, CONVERSION.sub(HOLE, self.text).split(HOLE)) if piece]


def squeeze(text: str) -> str:
    """One space between words, none at the ends."""
    return " ".join(text.split())


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t", "0": HOLE}.get(match[1], match[1]), text)


def literals_of(path: pathlib.Path, name: str) -> list[Message]:
    """All string literals of a C++ file outside of preprocessor lines and comments."""
    source = path.read_text(encoding="utf-8")
    found: list[Message] = []
    calls: list[str] = []
    previous = ""
    joined: tuple[int, str] | None = None
    for token in _TOKEN.finditer(source):
        if token["comment"] is not None or token["include"] is not None:
            continue
        literal = token["raw"] if token["raw"] is not None else token["string"]
        if literal is not None:
            text = literal if token["raw"] is not None else _unescape(literal)
            joined = (joined[0], joined[1] + text) if joined else (token.start(), text)
            continue
        # A macro that is itself a literal stands between two of them: its value is put in.
        if joined and token["word"] and token["word"].isupper():
            joined = (joined[0], joined[1] + "%s")
            continue
        if joined:
            line = source.count("\n", 0, joined[0]) + 1
            found.append(Message(name, line, joined[1], tuple(calls)))
            joined = None
        if token["other"] == "(":
            calls.append(previous)
        elif token["other"] == ")" and calls:
            calls.pop()
        previous = token["word"] or token["other"] or ""
    return found


def literals_below(folder: pathlib.Path) -> list[Message]:
    """The literals of all C++ files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".h"))
    return [each for path in files for each in literals_of(path, path.relative_to(folder.parent).as_posix())]


def is_prose(text: str) -> bool:
    """Two words with a space between them, or a word and a value."""
    shown = squeeze(CONVERSION.sub(" _ ", text))
    return re.search(r"[A-Za-z]{2,}[^\s]* \S|\S [A-Za-z]{2,}", shown) is not None

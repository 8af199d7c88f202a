"""Finding libsdp4bit.so, and the functions of its C interface that the commands ask."""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional

from .errors import UserError

NAME = "libsdp4bit.so"
PREFIX = "SDP4BIT_"


def add_library_argument(parser: argparse.ArgumentParser) -> None:
    """The option that names the library."""
    parser.add_argument("--library", metavar="FILE", help=f"the {NAME} to use; by default the preloaded one, or the one "
                        "that was installed or built with this command")


def _preloaded() -> Iterator[pathlib.Path]:
    for word in os.environ.get("LD_PRELOAD", "").replace(":", " ").split():
        path = pathlib.Path(word)
        if path.name.startswith(NAME) and path.is_file():
            yield path


def _beside_the_command() -> Iterator[pathlib.Path]:
    """Installed: PREFIX/share/sdp4bit/sdp4bit_tool and PREFIX/lib*/; in the source tree: tools/ and build/*/lib."""
    package = pathlib.Path(__file__).resolve().parent
    prefix = package.parents[2]
    if package.parts[-3:-1] == ("share", "sdp4bit"):
        for folder in ("lib", "lib64", f"lib/{os.uname().machine}-linux-gnu"):
            yield prefix / folder / NAME
        return
    built = [path for path in package.parents[1].glob(f"build/*/lib/{NAME}") if path.is_file()]
    yield from sorted(built, key=lambda path: path.stat().st_mtime, reverse=True)


def find_library(given: Optional[str] = None) -> pathlib.Path:
    """The library's absolute path."""
    if given:
        path = pathlib.Path(given)
        if not path.is_file():
            raise UserError(f"--library {given}: there is no such file; give the path of {NAME}")
        return path.absolute()
    for path in (*_preloaded(), *_beside_the_command()):
        if path.is_file():
            return path.absolute()
    raise UserError(f"{NAME} was not found beside this command, nor in LD_PRELOAD: build or install it, or give "
                    f"--library /path/to/{NAME}")


class _OptionRow(ctypes.Structure):
    """sdp4bitOption of sdp4bit.h."""

    _fields_ = [
        ("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("default_value", ctypes.c_char_p),
        ("accepted", ctypes.c_char_p), ("help", ctypes.c_char_p), ("value", ctypes.c_char_p),
        ("given", ctypes.c_char_p), ("is_refused", ctypes.c_int), ("shapes_wire", ctypes.c_int),
    ]


@dataclass(frozen=True)
class Option:
    """One variable, as the library knows it. `given` is what the environment says, if it says anything."""

    name: str
    default: str
    accepted: str
    help: str
    value: str
    given: Optional[str]
    is_refused: bool
    shapes_wire: bool

    @property
    def flag(self) -> str:
        """Its name on the command line: --min-bytes for SDP4BIT_MIN_BYTES."""
        return "--" + self.name[len(PREFIX) :].lower().replace("_", "-")


class Library:
    """libsdp4bit.so, loaded into this process. It takes no calls here; it is only asked."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        try:
            self.functions = ctypes.CDLL(str(path))
        except OSError as error:
            raise UserError(f"{path} cannot be loaded: {error}") from error
        version = self._function("sdp4bitVersion")
        version.restype = ctypes.c_char_p
        self.version: str = version().decode()

    def _function(self, name: str) -> "ctypes._CFuncPtr":
        try:
            return getattr(self.functions, name)
        except AttributeError:
            raise UserError(f"{self.path} has no function {name}: it is no {NAME}, or of another version than this "
                            "command; use the two that were installed together") from None

    def text(self, name: str, *arguments: bytes) -> str:
        """What one of the text functions of sdp4bit.h says."""
        function = self._function(name)
        function.restype = ctypes.c_size_t
        before = [ctypes.c_char_p(argument) for argument in arguments]
        length = function(*before, None, ctypes.c_size_t(0))
        buffer = ctypes.create_string_buffer(length + 1)
        function(*before, buffer, ctypes.c_size_t(length + 1))
        return buffer.value.decode(errors="replace")


    def options(self) -> List[Option]:
        """The table, with the values that are in force in this process's environment."""
        function = self._function("sdp4bitGetOption")
        function.argtypes = [ctypes.c_size_t, ctypes.POINTER(_OptionRow)]
        row = _OptionRow(size=ctypes.sizeof(_OptionRow))
        rows: List[Option] = []
        while function(len(rows), ctypes.byref(row)) == 0:
            texts = [_decoded(text) for text in (row.name, row.default_value, row.accepted, row.help, row.value)]
            given = None if row.given is None else _decoded(row.given)
            rows.append(Option(*texts, given, bool(row.is_refused), bool(row.shapes_wire)))
        return rows

    def accepts(self, name: str, value: str) -> bool:
        """Whether the library takes that text as a value of that variable."""
        function = self._function("sdp4bitCheckOption")
        function.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        return function(os.fsencode(name), os.fsencode(value)) == 1

    def build_facts(self) -> Dict[str, str]:
        """What it was built for: version, cuda_runtime, architectures, oldest_nccl."""
        lines = self.text("sdp4bitBuildFacts").splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}


def _decoded(text: bytes) -> str:
    return os.fsdecode(text)


def open_library(given: Optional[str] = None) -> Library:
    """Finds and loads it."""
    return Library(find_library(given))

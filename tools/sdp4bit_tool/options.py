"""Shows every option of the library: the value that a program started here would have, and where it comes from.

The table is the library's own. Options marked * shape what is sent: they must be equal on all ranks. A value or a
name in the environment that the library would refuse is named, and makes the exit code 1. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from typing import Dict, List, Sequence

from .errors import UserError, nearest
from .library import PREFIX, Option, add_library_argument, open_library


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_library_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--set", action="store_true", help="only what the environment sets")
    parser.add_argument("name", nargs="*", metavar="OPTION", help="only these: SDP4BIT_MIN_BYTES, --min-bytes or min-bytes")


def origin(option: Option) -> str:
    """Where the value in force comes from."""
    if option.given is None:
        return "default" if option.value == option.default else "preset"
    return "refused" if option.is_refused else "environment"


def complaints(options: Sequence[Option]) -> List[str]:
    """What is wrong with the SDP4BIT_* variables of this process, one line each."""
    found = [f'{option.name}="{option.given}" is refused; accepted: {option.accepted}; in force is "{option.value}"'
             for option in options if option.is_refused]
    names = [option.name for option in options]
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in names:
            found.append(f"{name} is no variable of sdp4bit and is ignored: the nearest is {nearest(name, names)}")
    return found


def find_options(options: Sequence[Option], names: Sequence[str]) -> List[Option]:
    """The rows of those names, in any of the spellings."""
    by_name: Dict[str, Option] = {option.name: option for option in options}
    found = []
    for name in names:
        full = name.lstrip("-").upper().replace("-", "_")
        full = full if full.startswith(PREFIX) else PREFIX + full
        if full not in by_name:
            raise UserError(f"there is no option {name}: the nearest is {nearest(full, by_name)}; `sdp4bit options` "
                            "shows all")
        found.append(by_name[full])
    return found


def as_json(options: Sequence[Option], version: str, wrong: Sequence[str]) -> str:
    rows = [{"name": option.name, "value": option.value, "origin": origin(option), "given": option.given,
             "default": option.default, "accepted": option.accepted, "equal_on_all_ranks": option.shapes_wire,
             "meaning": option.help} for option in options]
    return json.dumps({"version": version, "options": rows, "complaints": list(wrong)}, indent=2)


def as_text(options: Sequence[Option], width: int) -> str:
    """A line for each option, its meaning below it."""
    lines = []
    for option in options:
        mark = "*" if option.shapes_wire else " "
        value = option.value or "-"
        source = origin(option)
        if source == "refused":
            source = f'{"default" if option.value == option.default else "preset"}, "{option.given}" was refused'
        elif source != "default" and option.value != option.default:
            source = f"{source}; default {option.default or '-'}"
        lines.append(f"{mark} {option.name}={value}  ({source})")
        lines += textwrap.wrap(f"{option.help}. Accepted: {option.accepted}", max(width - 6, 40),
                               initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> int:
    library = open_library(arguments.library)
    table = library.options()
    wrong = complaints(table)
    shown = find_options(table, arguments.name) if arguments.name else table
    if arguments.set:
        shown = [option for option in shown if option.given is not None]
    if arguments.json:
        print(as_json(shown, library.version, wrong))
        return 1 if wrong else 0
    if shown:
        print(as_text(shown, shutil.get_terminal_size((110, 24)).columns))
    elif not wrong:
        print(f"no SDP4BIT_* variable is set: all options of {library.path} are at their defaults")
    sys.stdout.flush()
    for line in wrong:
        print(f"sdp4bit: {line}", file=sys.stderr)
    return 1 if wrong else 0

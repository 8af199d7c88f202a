"""The table of commands, and how one of them is started.

A command is a module with `add_arguments(parser)` and `run(arguments) -> int`, its exit code. It is imported only when
it was asked for: what one command needs and is missing harms no other. A module with `parse(parser, words)` reads its
words itself.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from dataclasses import dataclass
from typing import NoReturn, Sequence

from .errors import UserError, nearest


@dataclass(frozen=True)
class Command:
    """One row: its name, the module that is it, and what it is for."""

    name: str
    module: str
    summary: str


COMMANDS = (
    Command("run", "run", "run a command with the library preloaded, and say what became of its calls"),
    Command("estimate", "estimate", "predict a training step with and without sdp4bit"),
    Command("bench", "bench", "measure collectives with and without sdp4bit, or print the lines that do"),
    Command("report", "report", "make an HTML page of a job's statistics, or of results of bench"),
    Command("doctor", "doctor", "tell whether preloading will work for a program, and what to do if not"),
    Command("options", "options", "show every option of the library, with the value in force and its origin"),
)


class Parser(argparse.ArgumentParser):
    """argparse, except that a mistake is one line that says where help is."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; `{self.prog} --help` shows what is accepted")


def overview() -> str:
    """What `sdp4bit --help` says."""
    width = max(len(command.name) for command in COMMANDS)
    lines = [f"  {command.name:{width}}  {command.summary}" for command in COMMANDS]
    return "\n".join(["usage: sdp4bit COMMAND [ARGUMENT...]", "", *lines, "", "sdp4bit COMMAND --help says more; sdp4bit --version names the library.", ""])


def find_command(name: str) -> Command:
    """The row of that name."""
    for command in COMMANDS:
        if command.name == name:
            return command
    names = [command.name for command in COMMANDS]
    raise UserError(f"there is no command '{name}': did you mean '{nearest(name, names)}'? There are: {', '.join(names)}")


def start(words: Sequence[str]) -> int:
    """Runs the command that the words ask for."""
    if not words:
        sys.stderr.write(overview())
        return 2
    if words[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return 0
    if words[0] == "--version":
        from .library import open_library

        library = open_library()
        print(f"sdp4bit {library.version} ({library.path})")
        return 0
    command = find_command(words[0])
    try:
        module = importlib.import_module(f".{command.module}", __package__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(str(__package__)):
            raise
        raise UserError(f"sdp4bit {command.name} needs the Python package {error.name}, which {sys.executable} does not have; "
                        f"install it: {sys.executable} -m pip install {error.name}") from None
    parser = Parser(prog=f"sdp4bit {command.name}", description=(module.__doc__ or command.summary).strip(),
                    formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    module.add_arguments(parser)
    parse = getattr(module, "parse", None)
    arguments = parse(parser, words[1:]) if parse else parser.parse_args(words[1:])
    return module.run(arguments)


def _drop_output() -> None:
    """Or Python would try again to write what is left, and complain, when it ends."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(words: Sequence[str]) -> int:
    """The exit code: 2 for what the user can repair, as UserError says; the command's own otherwise."""
    for stream in (sys.stdout, sys.stderr):  # names of files and communicators may be what no terminal shows
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = start(list(words))
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except UserError as error:
        print(f"sdp4bit: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        _drop_output()
        return 141
    except OSError as error:
        print(f"sdp4bit: {error.filename or 'the output cannot be written'}: {error.strerror or error}", file=sys.stderr)
        _drop_output()
        return 1

"""Runs a command with the library preloaded, and says at the end what became of its calls.

  sdp4bit run [OPTION...] -- torchrun --nproc-per-node 8 train.py

Every option of the library is an option here: --min-bytes 4M sets SDP4BIT_MIN_BYTES=4M for the command. Values are
checked before anything starts. On several nodes use it on each of them, with the same options.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
import time
from typing import Dict, List, Optional, Sequence, Tuple

from .diagnosis.emulation import find_mismatch_of
from .errors import UserError, nearest
from .job_summary import read_files, summarize
from .library import Library, Option, add_library_argument, open_library
from .options import complaints
from .preload import compose_preload, find_command, find_obstacle, find_wrapper
from .supervise import run_child

WITHOUT_VALUE = ("-h", "--help", "-q", "--quiet")
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
NOT_FOUND, NOT_STARTED = 127, 126  # a shell's exit codes
FILES = ("SDP4BIT_STATS", "SDP4BIT_METRICS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "sdp4bit run [OPTION...] -- COMMAND [ARGUMENT...]"
    add_library_argument(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing: neither what is set nor the summary")


def split_words(words: Sequence[str]) -> Tuple[List[str], List[str]]:
    """Our options, and the command: what follows `--`, or begins at the first word that is no option."""
    i = 0
    while i < len(words) and words[i].startswith("-") and words[i] != "--":
        i += 1 if words[i] in WITHOUT_VALUE or "=" in words[i] else 2
    i = min(i, len(words))
    return list(words[:i]), list(words[i + 1 if words[i : i + 1] == ["--"] else i :])


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The library tells the options, so it is looked for first."""
    own, command = split_words(words)
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--library", nargs="?")
    library = open_library(first.parse_known_args(own)[0].library)
    table = library.options()
    shared = parser.add_argument_group("options of the library that must be equal on all ranks")
    own_group = parser.add_argument_group("options of the library that each rank may have differently")
    for option in table:
        text = f"{option.help}. Accepted: {option.accepted}. Default: {option.default or 'none'}".replace("%", "%%")
        (shared if option.shapes_wire else own_group).add_argument(option.flag, dest=option.name, metavar="VALUE", help=text)
    arguments, unknown = parser.parse_known_args(own)
    if unknown:
        word = unknown[0].split("=")[0]
        flags = ["--library", "--quiet", *(option.flag for option in table)]
        raise UserError(f"there is no option {word}: the nearest is {nearest(word, flags)}; `sdp4bit run --help` shows all")
    if not command:
        raise UserError("no command was given: sdp4bit run [OPTION...] -- torchrun ...")
    arguments.opened, arguments.table, arguments.command = library, table, command
    return arguments


def check_folder(said: str, name: str, pattern: str) -> None:
    """Refuses files that could never be written: the folder is there at least as far as it is the same for all processes."""
    folder = os.path.dirname(pattern.partition("%")[0])
    if name not in FILES or not folder.startswith("/"):
        return
    if not os.path.isdir(folder):
        raise UserError(f"{said}: there is no folder {folder}; make it first")
    if "%" not in os.path.dirname(pattern) and not os.access(folder, os.W_OK):
        raise UserError(f"{said}: the folder {folder} cannot be written to")


def chosen_values(arguments: argparse.Namespace) -> Dict[str, str]:
    """The variables that our options set; refuses what the library would warn about, also in the environment."""
    library: Library = arguments.opened
    table: List[Option] = arguments.table
    chosen: Dict[str, str] = {}
    for option in table:
        value: Optional[str] = getattr(arguments, option.name)
        if value is None:
            continue
        if not library.accepts(option.name, value):
            raise UserError(f'{option.flag} "{value}" is refused; accepted: {option.accepted}')
        chosen[option.name] = os.path.abspath(value) if option.name in FILES and value else value
        check_folder(f"{option.flag} {value}", option.name, chosen[option.name])
    for option in table:
        if option.name not in chosen:
            given = os.environ.get(option.name, "")
            check_folder(f"in the environment: {option.name}={given}", option.name, given)
    paths = {name: chosen.get(name) or os.environ.get(name, "") for name in FILES}
    if len({os.path.abspath(path) for path in paths.values() if path}) < sum(map(bool, paths.values())):
        raise UserError(f"{' and '.join(paths)} both name {paths[FILES[0]]}: one file holds one of the two; give each its own")
    settled = [*chosen, *(name for name in FILES if paths[name])]  # of two equal paths the library refuses one
    for line in complaints(table):
        if not any(line.startswith(f"{name}=") for name in settled):
            raise UserError(f"in the environment: {line}; correct or unset it")
    return chosen


def find_program(command: Sequence[str], library: pathlib.Path) -> str:
    """The command's file, if LD_PRELOAD reaches it."""
    program = find_command(command[0], NOT_FOUND, NOT_STARTED)
    obstacle = find_obstacle(program, library) or find_mismatch_of(program, library)
    if obstacle:
        raise UserError(f"{obstacle.found}; {obstacle.advice}", NOT_STARTED)
    return program


def is_spoken_for() -> bool:
    """Whether a launcher started this command once for each rank, and this is not the node's first: that one speaks."""
    texts = (os.environ.get(name, "") for name in LOCAL_RANKS)
    return any(text.isdigit() and int(text) > 0 for text in texts)


def say(lines: Sequence[str]) -> None:
    """One write, so that lines of other processes stay out."""
    text = "".join(f"sdp4bit: {line}\n" for line in lines)
    try:
        os.write(sys.stderr.fileno(), text.encode(errors="replace"))
    except OSError:
        pass  # nobody listens; the command's exit code matters more


def describe(arguments: argparse.Namespace, chosen: Dict[str, str], preload: str, stats: str, is_own: bool) -> List[str]:
    """What is set, line by line."""
    library: Library = arguments.opened
    lines = [f"running {shlex.join(arguments.command)[:200]}", f"  LD_PRELOAD={preload}  (version {library.version})"]
    for option in arguments.table:
        if option.name in chosen:
            lines.append(f"  {option.name}={chosen[option.name]}  (default {option.default or '-'})")
        elif option.given is not None:
            lines.append(f"  {option.name}={option.given}  (from the environment; default {option.default or '-'})")
    if is_own:
        lines.append(f"  SDP4BIT_STATS={stats}  (for the summary at the end)")
    wrapper = find_wrapper(arguments.command)
    return lines + ([f"  warning: {wrapper.text}; {wrapper.advice}"] if wrapper else [])


def nothing_came(command: Sequence[str], code: int, pattern: str) -> List[str]:
    """What to say where no process wrote anything; `pattern` is empty where it was ours."""
    start = f"no statistics were written to {pattern}: its folder may be missing, or " if pattern else ""
    shown = shlex.join(command)[:200]
    if code != 0:
        return [f"{start}the command ended with {code} before any process of it reached the library here: look at its own "
                f"error first; if it runs without sdp4bit, `sdp4bit doctor -- {shown}` tells why"]
    return [f"{start}no process of this command reached the library on this machine: it made no communicator of NCCL, or its NCCL "
            "cannot be taken (opened by dlopen, static and hidden, or LD_PRELOAD was dropped)",
            f"  sdp4bit doctor -- {shown}  tells which; a short command that only imports is enough"]


def conclude(pattern: str, since: float, command: Sequence[str], code: int, is_own: bool) -> List[str]:
    """The summary."""
    found = read_files(pattern, since)
    if not found.processes:
        return nothing_came(command, code, "" if is_own else pattern) + [f"  warning: {path}: {why}" for path, why in found.bad[:3]]
    lines = summarize(found)
    if not is_own:
        lines.append(f"  more: sdp4bit report {shlex.quote(os.path.dirname(pattern) or '.')}")
    return lines


def run(arguments: argparse.Namespace) -> int:
    library: Library = arguments.opened
    chosen = chosen_values(arguments)
    program = find_program(arguments.command, library.path)
    preload = compose_preload(os.environ.get("LD_PRELOAD", ""), library.path)
    environment = {**os.environ, **chosen, "LD_PRELOAD": preload}
    is_quiet = arguments.quiet or is_spoken_for()
    own_folder = None
    if not environment.get("SDP4BIT_STATS") and not is_quiet:
        try:
            own_folder = tempfile.mkdtemp(prefix="sdp4bit-")
            environment["SDP4BIT_STATS"] = os.path.join(own_folder, "%h-%p-%r.json")
        except OSError as error:
            say([f"there will be no summary: a temporary folder cannot be made ({error.strerror})"])
    stats = environment.get("SDP4BIT_STATS", "")
    if not is_quiet:
        say(describe(arguments, chosen, preload, stats, own_folder is not None))
    since = time.time() - 1  # files have their own clock's grain
    try:
        code = run_child(program, arguments.command, environment)
        if not is_quiet and stats:
            say(conclude(stats, since, arguments.command, code, own_folder is not None))
        return code
    except OSError as error:
        raise UserError(f"{program} cannot be started: {error.strerror}", NOT_STARTED) from None
    finally:
        if own_folder:
            shutil.rmtree(own_folder, ignore_errors=True)

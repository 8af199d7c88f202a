"""Tells whether preloading will work for a program, and what to do where it will not.

  sdp4bit doctor                                the machine, the environment, and the Python in PATH
  sdp4bit doctor torch/lib/libtorch_cuda.so     and a file: a library, a program, a script, a Python interpreter
  sdp4bit doctor -- python -c 'import torch'    and a command, which is run with the library preloaded and watched

Files are enough; no GPU is needed. Exit code 0: preloading will work; 1: it will not, or that could not be seen.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shlex
import time
from typing import Dict, List, Optional, Sequence, Tuple

from . import units
from .diagnosis.callers import add_bindings, add_nccl, add_outcome, add_roles, is_library
from .diagnosis.emulation import find_mismatch_of
from .diagnosis.finding import FAIL, NOTE, OK, WARN, Diagnosis
from .diagnosis.loader import Loader, is_system_path
from .diagnosis.machine import ask_driver, check_driver, check_glibc, check_limits, kernel_module_version
from .diagnosis.nccl_file import IS_NCCL, role_of
from .diagnosis.python_files import default_interpreter
from .diagnosis.target import TargetReader, locate
from .diagnosis.variables import check_plugins, check_preloads, check_switches
from .diagnosis.watched_run import Watched, watch
from .errors import UserError
from .library import Library, add_library_argument, find_library
from .options import complaints
from .preload import compose_preload, find_command, find_obstacle, find_wrapper

Version = Optional[Tuple[int, int, int]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "sdp4bit doctor [--library FILE] [--json] [PROGRAM | -- COMMAND [ARGUMENT...]]"
    add_library_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=units.positive, default=120.0, metavar="S", help="end the watched command after this time (120)")
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="a file to look at, or the name of a program in PATH")


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """What follows `--` is a command."""
    at = list(words).index("--") if "--" in words else len(words)
    arguments, rest = parser.parse_known_args(list(words[:at]))
    if rest and arguments.program and words.index(arguments.program) < words.index(rest[0]):
        command = shlex.join(words[words.index(arguments.program):at])
        raise UserError(f"doctor knows no {rest[0]}; a command comes behind `--`: sdp4bit doctor -- {command}")
    if rest:
        parser.error(f"unrecognized arguments: {shlex.join(rest)}")
    arguments.command = list(words[at + 1 :])
    if at < len(words) and not arguments.command:
        raise UserError("no command follows `--`: sdp4bit doctor -- python -c 'import torch'")
    if arguments.program and arguments.command:
        raise UserError(f"both a program ({arguments.program}) and a command ({arguments.command[0]}) were given: give one")
    return arguments


def look_at_library(path: pathlib.Path, diagnosis: Diagnosis) -> Tuple[Dict[str, str], List[str]]:
    """Its facts, and what it says about the environment's SDP4BIT_*."""
    try:
        library = Library(path)
        facts = library.build_facts()
    except UserError as error:
        diagnosis.add(FAIL, "library", str(error), "use a build for this system, and the command that came with it")
        return {}, []
    try:
        compose_preload(os.environ.get("LD_PRELOAD", ""), path)
    except UserError as error:
        diagnosis.add(FAIL, "preload", str(error), "`sdp4bit run` refuses it too")
    cuda = int(facts["cuda_runtime"])
    diagnosis.add(OK, "library", f"{path}, version {library.version}, built for CUDA {cuda // 1000}.{cuda // 10 % 100} and "
                  f"architectures {facts['architectures']}")
    return facts, complaints(library.options())


def run_watched(command: Sequence[str], library: pathlib.Path, seconds: float, diagnosis: Diagnosis) -> Optional[Watched]:
    """Runs the command, unless it is known that preloading does not reach it."""
    program = find_command(command[0])
    wrapper, obstacle = find_wrapper(list(command)), find_obstacle(program, library) or find_mismatch_of(program, library)
    if wrapper and wrapper.drops:
        diagnosis.add(FAIL, "program", wrapper.text, wrapper.advice)
    elif obstacle:
        diagnosis.add(FAIL, "program", obstacle.found, obstacle.advice)
    if diagnosis.failures:
        diagnosis.reaches = False
        return None
    if wrapper:
        diagnosis.add(WARN, "program", wrapper.text, wrapper.advice)
    started = time.monotonic()
    seen = watch([program, *command[1:]], compose_preload(os.environ.get("LD_PRELOAD", ""), library), seconds)
    taken = time.monotonic() - started
    for line in seen.refusals[:3]:
        diagnosis.add(FAIL, "preload", line, "give the library's path as the job sees it, of the job's architecture")
    said = f"; it said: {seen.last_lines[-1][:200]}" if seen.last_lines else ""
    if seen.timed_out:
        diagnosis.add(WARN, "program", f"{shlex.join(command)} was ended after {seconds:g} s", "give a command that only imports, or --seconds")
    elif seen.exit_code != 0:
        diagnosis.add(WARN, "program", f"{shlex.join(command)} ended with {seen.exit_code}{said}", "make it run without sdp4bit first")
    else:
        diagnosis.add(OK, "program", f"{shlex.join(command)} ran for {taken:.1f} s in {len(seen.programs)} process"
                      + ("" if len(seen.programs) == 1 else "es"))
    return seen


def look_at_command(command: Sequence[str], library: pathlib.Path, oldest: int, seconds: float, diagnosis: Diagnosis) -> Version:
    """NCCL's version, where one was loaded."""
    seen = run_watched(command, library, seconds, diagnosis)
    if seen is None:
        return None
    files = {path for path in (*seen.loaded, *seen.programs.values()) if os.path.isfile(path) and not os.path.samefile(path, library)}
    roles = {path: role_of(path, deep=False) for path in sorted(files)}
    if not any(is_library(whose) for who, whose, _ in seen.bindings if not is_library(who)):  # who, then, has one inside?
        roles = {path: role_of(path, deep=not is_system_path(path)) for path in roles}
    if not seen.loaded:
        diagnosis.add(FAIL, "program", "its loader tells nothing: it is no glibc's, or the program runs with other rights",
                      "name the program's file instead: sdp4bit doctor PROGRAM")
        return None
    version: Version = None
    nccls = [path for path, role in roles.items() if role.kind == IS_NCCL]
    for path in nccls:
        version = add_nccl(path, oldest, diagnosis)
    add_bindings(sorted(seen.bindings), roles, diagnosis)
    add_roles(list(roles.values()), diagnosis, is_watched=True)
    add_outcome(diagnosis, "the command", nccls, is_watched=True)
    return version


def say_verdict(diagnosis: Diagnosis, library: pathlib.Path, has_target: bool) -> str:
    """One sentence."""
    if diagnosis.failures:
        return f"preloading will not work: {diagnosis.failures[0].found}"
    if not has_target:
        return "nothing here is against preloading; name a program or a command to look at its NCCL too"
    return f"preloading will work: sdp4bit run -- ..., or export LD_PRELOAD={library}"


def as_text(diagnosis: Diagnosis, verdict: str) -> str:
    lines = []
    for finding in diagnosis.findings:
        lines.append(f"{finding.level:4}  {finding.topic:8} {finding.found}")
        if finding.todo:
            lines.append(f"{'':14} -> {finding.todo}")
    return "\n".join([*lines, "", verdict])


def as_json(diagnosis: Diagnosis, verdict: str, library: pathlib.Path, taken: Dict[str, str]) -> str:
    ways = {"preload": diagnosis.works and diagnosis.reaches is True, "net_plugin": bool(diagnosis.plugin_reaches) and "net" not in taken,
            "profiler_plugin": bool(diagnosis.plugin_reaches) and "profiler" not in taken}
    findings = [{"level": each.level, "topic": each.topic, "found": each.found, "todo": each.todo} for each in diagnosis.findings]
    return json.dumps({"works": diagnosis.works, "verdict": verdict, "library": str(library), "ways": ways, "findings": findings}, indent=2)


def run(arguments: argparse.Namespace) -> int:
    target = locate(arguments.program) if arguments.program else None if arguments.command else default_interpreter()
    library = find_library(arguments.library)
    diagnosis = Diagnosis()
    facts, wrong = look_at_library(library, diagnosis)
    oldest = int(facts.get("oldest_nccl", "0"))
    loader = Loader(os.environ.get("LD_LIBRARY_PATH", ""))
    version: Version = None
    if target:
        version = TargetReader(loader, library, oldest, diagnosis).read(target)
    elif arguments.command:
        version = look_at_command(arguments.command, library, oldest, arguments.seconds, diagnosis)
    taken = check_plugins(os.environ, library, loader, version, diagnosis)
    if diagnosis.reaches is False and diagnosis.plugin_reaches:
        free = [name for name, kind in (("NCCL_NET_PLUGIN", "net"), ("NCCL_PROFILER_PLUGIN", "profiler")) if kind not in taken]
        diagnosis.add(NOTE, "plugin", "as NCCL's plugin the library does reach these calls", f"{free[0]}=sdp4bit" if free else
                      "free one of the plugins' places above")
    check_preloads(os.environ, library, loader, diagnosis)
    check_switches(os.environ, wrong, diagnosis)
    check_glibc(str(library), diagnosis)
    driver = ask_driver() if loader.find("libcuda.so.1") else None
    check_driver(facts, driver, kernel_module_version(), diagnosis)
    check_limits(diagnosis)
    verdict = say_verdict(diagnosis, library, bool(target or arguments.command))
    print(as_json(diagnosis, verdict, library, taken) if arguments.json else as_text(diagnosis, verdict))
    return 0 if diagnosis.works else 1

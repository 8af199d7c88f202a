"""Runs a command with the library preloaded and the loader telling what it does: who loads NCCL, whose calls lead where.

The loader of glibc writes to the stderr of each process (LD_DEBUG); a pipe is read as it comes and only what is about
NCCL is kept. All symbols are bound at once (LD_BIND_NOW), so that also calls which are never made are seen.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Deque, Dict, List, Sequence, Set, Tuple

from .nccl_file import TAKEN

_LINE = re.compile(rb"^\s*(\d+):\t(.*)$")
_BINDING = re.compile(r"binding file (.+?) \[\d+\] to (.+?) \[\d+\]: \w+ symbol `(\w+)'")
_INTERESTING = tuple(name.encode() for name in TAKEN)
_INIT = "calling init: "
_PROGRAM = "initialize program: "


@dataclass
class Watched:
    """What was seen. Paths are the loader's."""

    exit_code: int = 0
    timed_out: bool = False
    programs: Dict[int, str] = field(default_factory=dict)  # by process
    loaded: Dict[str, Set[int]] = field(default_factory=dict)  # file -> processes
    bindings: Set[Tuple[str, str, str]] = field(default_factory=set)  # who, whose, function
    refusals: List[str] = field(default_factory=list)  # of LD_PRELOAD, by the loader
    last_lines: Deque[str] = field(default_factory=lambda: deque(maxlen=5))  # of the command's own stderr


def read_line(line: bytes, seen: Watched) -> None:
    """One line of the pipe: the loader's, or the command's own."""
    match = _LINE.match(line)
    if match is None:
        text = line.decode(errors="replace").rstrip()
        if "from LD_PRELOAD cannot be preloaded" in text:
            seen.refusals.append(text)
        elif text:
            seen.last_lines.append(text)
        return
    process, text = int(match[1]), match[2]
    if text.startswith(b"binding file"):
        if any(name in text for name in _INTERESTING):
            binding = _BINDING.match(text.decode(errors="replace"))
            if binding and binding[3] in TAKEN:
                seen.bindings.add((binding[1], binding[2], binding[3]))
        return
    words = text.decode(errors="replace").strip()
    if words.startswith(_INIT):
        seen.loaded.setdefault(words[len(_INIT) :], set()).add(process)
    elif words.startswith(_PROGRAM):
        seen.programs[process] = words[len(_PROGRAM) :]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The command and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass


def watch(command: Sequence[str], preload: str, seconds: float, bind_now: bool = True) -> Watched:
    """Runs it to its end, or to its time's."""
    environment = {**os.environ, "LD_PRELOAD": preload, "LD_DEBUG": "libs,bindings"}
    environment.pop("LD_DEBUG_OUTPUT", None)
    if bind_now:
        environment["LD_BIND_NOW"] = "1"
    seen = Watched()
    with subprocess.Popen(list(command), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, start_new_session=True) as process:
        def give_up() -> None:
            seen.timed_out = True
            _end(process)

        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), give_up)
        timer.start()
        try:
            assert process.stderr is not None
            for line in process.stderr:
                read_line(line, seen)
            seen.exit_code = process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise
        finally:
            timer.cancel()
    if bind_now and seen.exit_code != 0 and any("undefined symbol" in line for line in seen.last_lines):
        return watch(command, preload, seconds, bind_now=False)  # it lives with a symbol that it never uses
    return seen

"""How the tests call the command: as a user does, in a process of its own."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
from typing import Dict, NamedTuple, Optional, Sequence
from unittest import mock

TOOL = os.environ.get("SDP4BIT_TOOL") or os.path.join(os.path.dirname(__file__), "..", "..", "tools", "sdp4bit")


def take_arguments(count: int) -> Sequence[str]:
    """The first `count` arguments of the test's command line; unittest sees the rest."""
    taken, sys.argv[1:] = sys.argv[1 : 1 + count], sys.argv[1 + count :]
    if len(taken) < count:
        sys.exit(f"{sys.argv[0]} needs {count} arguments: run it by ctest, which gives them")
    return taken


def clean_environment() -> Dict[str, str]:
    """This process's, without what would change what the command finds."""
    dropped = ("SDP4BIT_", "NCCL_", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    return kept


@functools.lru_cache(maxsize=None)
def interpreter() -> str:
    """This Python, or the system's where only that has matplotlib: plots are tested where any can draw them."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(candidate) and subprocess.run([candidate, "-c", "import matplotlib"], capture_output=True,
                                                        check=False).returncode == 0:
            return candidate
    return sys.executable


@functools.lru_cache(maxsize=None)
def has_matplotlib() -> bool:
    return subprocess.run([interpreter(), "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0


class Result(NamedTuple):
    """Of a command that ran in this process."""

    returncode: int
    stdout: str
    stderr: str


def in_this_process(*words: str, variables: Optional[Dict[str, str]] = None) -> Result:
    """The same command without a process of its own, where many are run: starting Python and matplotlib takes most of the
    time of a small one. Its environment is that of `sdp4bit`."""
    folder = os.path.dirname(os.path.realpath(TOOL))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from sdp4bit_tool.main import main

    said, warned = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(warned), \
            mock.patch.dict(os.environ, {**clean_environment(), **(variables or {})}, clear=True):
        code = main(list(words))
    return Result(code, said.getvalue(), warned.getvalue())


def sdp4bit(*words: str, variables: Optional[Dict[str, str]] = None, seconds: float = 60,
            folder: Optional[str] = None) -> "subprocess.CompletedProcess[str]":
    """Runs `sdp4bit WORDS`, with `variables` set besides."""
    return subprocess.run([interpreter(), TOOL, *words], env={**clean_environment(), **(variables or {})}, cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False)

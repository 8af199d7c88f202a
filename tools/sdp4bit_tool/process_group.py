"""Runs a program with all that it starts, and leaves none of it behind when its time or its caller ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from types import FrameType
from typing import Dict, Iterator, NoReturn, Optional, Sequence, Tuple

GRACE = 10.0  # seconds: launchers end the ranks that they started when they are told to


def _send(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _end(process: "subprocess.Popen[str]") -> None:
    """Asks the group, and makes what is left of it end."""
    try:
        _send(process.pid, signal.SIGTERM)
        process.communicate(timeout=GRACE)  # until nobody holds its output
    except (subprocess.TimeoutExpired, ValueError):
        pass
    finally:  # also at a second Ctrl-C
        _send(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP exceptions: in a session of its own the group does not get them."""

    def leave(number: int, _: Optional[FrameType]) -> NoReturn:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) == signal.SIG_DFL]
    for each in taken:
        signal.signal(each, leave)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


def run_group(words: Sequence[str], environment: Dict[str, str], seconds: float) -> Tuple[int, str]:
    """Exit code, and stdout with stderr; subprocess.TimeoutExpired when the time was over."""
    with _ended_by_signals(), subprocess.Popen(
        list(words),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=min(seconds, threading.TIMEOUT_MAX))
        except BaseException:  # the time's end, Ctrl-C
            _end(process)
            raise
        return process.returncode, said

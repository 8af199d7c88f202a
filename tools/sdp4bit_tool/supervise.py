"""Runs one child as if this process were it: same terminal, signals passed on, its exit code."""

from __future__ import annotations

import os
import signal
from typing import Dict, Sequence

SI_KERNEL = 0x80  # of siginfo_t: the terminal's signals, which the whole foreground group gets at once
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


def exit_code(status: int) -> int:
    """A shell's: 128 + n where signal n ended it."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def run_child(program: str, command: Sequence[str], environment: Dict[str, str]) -> int:
    """The child's exit code. The signals stay blocked when it returns: nothing may cut off what is said at the end.

    A stop (Ctrl-Z) and going on reach both processes by themselves.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever started us may have it ignored: no child could be waited for
    passed_on = {each for each in PASSED_ON if signal.getsignal(each) != signal.SIG_IGN}  # nohup's stay ignored by both
    watched = {*passed_on, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    # Python ignores these two, and the child must not.
    child = os.posix_spawn(program, list(command), environment, setsigmask=before, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    while True:
        info = signal.sigwaitinfo(watched)
        if info.si_signo != signal.SIGCHLD:
            if info.si_code != SI_KERNEL:
                os.kill(child, info.si_signo)
            continue
        done, status = os.waitpid(-1, os.WNOHANG)
        while done:  # as a container's first process we are given orphans too
            if done == child:
                return exit_code(status)
            done, status = os.waitpid(-1, os.WNOHANG)

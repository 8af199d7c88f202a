"""Lines that show how far a study is and when it will be done."""
from __future__ import annotations

import threading
import time


class Progress:
    """Counts runs; the time that is left follows from those that were made in this session."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.made = 0
        self.started = time.monotonic()
        self._one_at_a_time = threading.Lock()

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    def say(self, text: str) -> None:
        print(f"[{self._elapsed():4.0f} s] {text}", flush=True)

    def finished(self, text: str, was_there: bool) -> None:
        with self._one_at_a_time:
            self.done += 1
            if was_there:
                return self.say(f"{self.done}/{self.total} {text} (from an earlier session)")
            self.made += 1
            left = self._elapsed() / self.made * (self.total - self.done)
            self.say(f"{self.done}/{self.total} {text}" + (f"; about {clock(left)} left" if self.done < self.total else ""))


def clock(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"

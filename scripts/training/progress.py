"""Lines that show how far a study is and when it will be done."""
from __future__ import annotations

import math
import threading
import time
from typing import Optional


class Progress:
    """Counts runs; the time that is left follows from what those of this start took, `jobs` at a time."""

    def __init__(self, total: int, jobs: int) -> None:
        self.total = total
        self.jobs = jobs
        self.done = 0
        self.taken: list[float] = []
        self.started = time.monotonic()
        self._one_at_a_time = threading.Lock()

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    def say(self, text: str) -> None:
        print(f"[{self._elapsed():4.0f} s] {text}", flush=True)

    def finished(self, text: str, seconds: Optional[float]) -> None:
        """`seconds`: what the run took; None: it was there already."""
        with self._one_at_a_time:
            self.done += 1
            if seconds is None:
                return self.say(f"{self.done}/{self.total} {text} (made by an earlier start of this command)")
            self.taken.append(seconds)
            left = sum(self.taken) / len(self.taken) * math.ceil((self.total - self.done) / self.jobs)
            self.say(f"{self.done}/{self.total} {text}" + (f"; about {clock(left)} left" if self.done < self.total else ""))


def clock(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"

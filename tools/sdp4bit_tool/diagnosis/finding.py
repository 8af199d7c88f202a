"""One thing that the doctor found, and what follows from all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional, Sequence

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    """`todo` is empty where nothing is to be done."""

    level: str
    topic: str
    found: str
    todo: str = ""


@dataclass
class Diagnosis:
    """What is known so far. `reaches` says whether preloading takes calls; None until somebody has looked."""

    findings: List[Finding] = field(default_factory=list)
    reaches: Optional[bool] = None
    plugin_reaches: Optional[bool] = None

    def add(self, level: str, topic: str, found: str, todo: str = "") -> None:
        self.findings.append(Finding(level, topic, found, todo))

    @property
    def failures(self) -> List[Finding]:
        return [finding for finding in self.findings if finding.level == FAIL]

    @property
    def works(self) -> bool:
        """Whether preloading will work, as far as could be seen."""
        return not self.failures and self.reaches is not False


def listed(names: Sequence[str], most: int = 4) -> str:
    """A, B and 3 more."""
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")

"""What is the user's to repair: one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import difflib
from typing import Iterable


class UserError(Exception):
    """Its text is one useful line: what was found, what is accepted, what to do."""

    def __init__(self, text: str, code: int = 2) -> None:
        super().__init__(text)
        self.code = code


def nearest(word: str, known: Iterable[str]) -> str:
    """The one of `known` that looks most like `word`; for "did you mean"."""
    return max(known, key=lambda name: difflib.SequenceMatcher(None, word, name).ratio())

"""Tables in Markdown, and where a page keeps them: between marks, the text around them is written by hand."""

from __future__ import annotations

import re
from typing import List


def table(heads: List[str], rows: List[List[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def replace_between(text: str, mark: str, content: str) -> str:
    """The page with other content between a pair of marks; ValueError where it has none."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no marks {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)

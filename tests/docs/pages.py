"""The project's Markdown pages, taken apart: headings, links, blocks of code and what stands above them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELLS = ("sh", "bash")
_MARK = re.compile(r"<!--\s*(needs|tested by|printed)(?::\s*(.*?))?\s*-->")


@dataclasses.dataclass(frozen=True)
class Mark:
    """What a comment above a block says: `needs` (what no test has), `tested by` (whom), `printed`."""

    kind: str
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str
    marks: tuple[Mark, ...]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_commands(self) -> bool:
        return self.language in SHELLS

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(name for mark in self.marks if mark.kind == kind for name in mark.names)

    def has(self, kind: str) -> bool:
        return any(mark.kind == kind for mark in self.marks)


@dataclasses.dataclass(frozen=True)
class Page:
    """One file; `prose` is its text with blocks and comments blanked, line by line as in the file."""

    path: str
    text: str
    prose: str
    blocks: tuple[Block, ...]

    def links(self) -> list[tuple[int, str]]:
        """(line, target) of links and pictures, those of HTML too."""
        without_code = re.sub(r"`[^`\n]*`", "", self.prose)
        found = []
        for match in re.finditer(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", without_code):
            found.append((without_code.count("\n", 0, match.start()) + 1, match[1] or match[2]))
        return found

    def texts(self) -> list[tuple[int, str]]:
        """(line, text) of everything but blocks of source code, whose names are not a user's."""
        blocks = [(block.line + 1, block.text) for block in self.blocks if block.language not in ("c", "cpp", "cmake")]
        return [(1, self.prose), *blocks]

    def anchors(self) -> set[str]:
        """What a link may name behind #: headings as GitHub writes them, and named places."""
        found = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", self.prose))
        counts: dict[str, int] = {}
        for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", self.prose, re.MULTILINE):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
            slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
            count = counts.get(slug, 0)
            counts[slug] = count + 1
            found.add(f"{slug}-{count}" if count else slug)
        return found

    def code_spans(self) -> list[tuple[int, str]]:
        """(line, text) of `code` in the prose; it may run over the end of a line."""
        found = []
        for match in re.finditer(r"``\s?(.+?)\s?``|`([^`]+)`", self.prose, re.DOTALL):
            line = self.prose.count("\n", 0, match.start()) + 1
            found.append((line, " ".join((match[1] or match[2]).split())))
        return found


def parse(path: str, text: str) -> Page:
    """Takes a page apart."""
    blocks: list[Block] = []
    prose: list[str] = []
    marks: list[Mark] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        fence = re.match(r"^\s*(```+|~~~+)\s*([\w+-]*)", line)
        if fence:
            end = at + 1
            while end < len(lines) and not lines[end].strip().startswith(fence[1]):
                end += 1
            indent = len(line) - len(line.lstrip())
            body = "\n".join(each[indent:] for each in lines[at + 1 : end])
            blocks.append(Block(path, at + 1, fence[2], body, tuple(marks)))
            prose += [""] * (min(end, len(lines) - 1) - at + 1)
            marks = []
            at = end + 1
            continue
        found = [
            Mark(kind, tuple(name.strip() for name in names.split(",") if name.strip()))
            for kind, names in _MARK.findall(line)
        ]
        marks = marks + found if found or not line.strip() else []
        prose.append(re.sub(r"<!--.*?-->", "", line))
        at += 1
    return Page(path, text, "\n".join(prose), tuple(blocks))


def all_pages() -> list[Page]:
    """Every page of the tree; what is built, and the history of changes, are left out."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name != "build" and not name.startswith("."))
        for name in sorted(files):
            path = pathlib.Path(folder, name)
            if path.suffix == ".md":
                found.append(parse(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")))
    return [page for page in found if page.path != "CHANGELOG.md"]

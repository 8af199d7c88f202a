"""docs/log.md explains every line that the library can print, and no line that it cannot."""

import re
import unittest

import pages
import source_messages
from source_messages import squeeze

PAGE = "docs/log.md"
# A line's text may also be explained where its subject is.
OTHER_PAGES = ("docs/statistics.md", "docs/options.md")
SECTIONS = {"notice": "Nothing is wrong", "warn": "Warnings", "error": "Errors", "info": "With SDP4BIT_LOG=info"}
# Texts that no line of the log has.
ELSEWHERE = {
    "plugin/stats_names.cpp": "help of the metrics, which stands beside them in the file",
    "plugin/stats_prometheus.cpp": "likewise",
}
NOT_SHOWN = {
    "sdp4bit %s": "the head of every line",
    "no call yet": "an answer of the C interface",
}
PLACEHOLDER = re.compile(r"<[^<>]*>")


def letters(piece: str) -> int:
    return len(re.sub(r"[^A-Za-z]", "", piece))


def worth_asking_for(piece: str) -> bool:
    """Short pieces between two values are found anywhere."""
    return letters(piece) >= 6


class LogPage(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls) -> None:
        cls.pages = {page.path: page for page in pages.all_pages()}
        every = source_messages.literals_below(pages.ROOT / "plugin")
        cls.messages = [
            message
            for message in every
            if source_messages.is_prose(message.text)
            and message.file not in ELSEWHERE
            and message.text not in NOT_SHOWN
            and not message.text.startswith("| ")
        ]
        pieces = {piece for each in every for piece in each.pieces()}
        cls.source = "\n".join(sorted(pieces, key=len, reverse=True))

    def section_text(self, title: str) -> str:
        """One section of the page, with those of its headings that are lower."""
        text = self.pages[PAGE].prose
        start = text.index(f"\n## {title}\n")
        end = text.find("\n## ", start + 1)
        return text[start : end if end >= 0 else None]

    def section(self, title: str) -> str:
        """The code in it."""
        return self.code(pages.parse(PAGE, self.section_text(title)))

    def without_source(self, piece: str) -> str:
        """What is left of a piece of a line when all texts of the source that it is made of are taken out."""
        piece = squeeze(piece)
        if piece in self.source:
            return ""
        for text in self.source.split("\n"):
            if letters(text) >= 4:
                piece = piece.replace(text, " ")
        return squeeze(piece) if worth_asking_for(piece) else ""

    def lines_of(self, title: str) -> list[str]:
        """The lines that a section explains: the code in the first cells of its tables."""
        rows = re.findall(r"^\| ([^|]*) \|", self.section_text(title), re.MULTILINE)
        return [span for row in rows for _, span in pages.parse(PAGE, row).code_spans()]

    @staticmethod
    def code(page: pages.Page) -> str:
        return "\n".join(span for _, span in page.code_spans())

    def test_the_source_is_read(self) -> None:
        self.assertGreater(len(self.messages), 100)
        levels = {message.level for message in self.messages}
        self.assertTrue({"error", "warn", "notice", "info", "trace"} <= levels)

    def test_every_text_of_the_source_is_explained(self) -> None:
        known = self.code(self.pages[PAGE]) + "\n" + "\n".join(squeeze(self.pages[path].text) for path in OTHER_PAGES)
        wrong = [
            f"{message.file}:{message.line}: {piece}"
            for message in self.messages
            if message.level != "trace"
            for piece in message.pieces()
            if worth_asking_for(piece) and piece not in known
        ]
        self.assertEqual(wrong, [])

    def test_lines_stand_under_their_level(self) -> None:
        sections = {level: self.section(title) for level, title in SECTIONS.items()}
        wrong = [
            f"{message.file}:{message.line}: not under {message.level}: {piece}"
            for message in self.messages
            if message.level in sections
            for piece in message.pieces()
            if worth_asking_for(piece) and piece not in sections[message.level]
        ]
        self.assertEqual(wrong, [])

    def test_every_line_of_the_page_is_in_the_source(self) -> None:
        wrong = []
        for title in (*SECTIONS.values(), "Plans"):
            for span in self.lines_of(title):
                wrong += [f"{title}: {piece}" for piece in map(self.without_source, PLACEHOLDER.split(span)) if piece]
        self.assertEqual(wrong, [])

    def test_every_reason_and_event_is_explained(self) -> None:
        known = {span for _, span in self.pages[PAGE].code_spans()}
        names = []
        for path, function in (("plugin/policy.cpp", "reason_name"), ("plugin/weight_class.cpp", "event_name")):
            source = (pages.ROOT / path).read_text(encoding="utf-8")
            body = source[source.index(f"const char* {function}(") :]
            names += re.findall(r'return "(\w+)";', body[: body.index("\n}\n")])
        self.assertGreater(len(names), 20)
        self.assertEqual([name for name in names if name not in known and name != "unknown"], [])

    def test_lines_that_pages_show_are_lines_of_the_log(self) -> None:
        spans = [squeeze(span) for title in SECTIONS.values() for span in self.lines_of(title)]
        lines = [re.compile(".*".join(map(re.escape, PLACEHOLDER.split(span)))) for span in spans]
        wrong = []
        for page in self.pages.values():
            for block in page.blocks:
                for text in re.findall(r"^sdp4bit (?:warn|error|info)[^:\n]*: (.*)$", block.text, re.MULTILINE):
                    shown = squeeze(text)
                    if shown != "text" and not any(line.search(shown) for line in lines):
                        wrong.append(f"{block.place}: {text}")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()

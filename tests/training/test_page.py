"""What the page promises: one file that needs no other, with curves, the table and sentences of the same numbers."""
from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
from study_results import SOURCE, WHOLE, study

import curves  # noqa: E402
import tables  # noqa: E402
from sentences import of_study  # noqa: E402
from summary import summarize  # noqa: E402


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.words: list[str] = []
        self.curves = 0
        self.outside: list[str] = []
        self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, object]]) -> None:
        self.curves += tag == "svg"
        self._in_cell = tag == "td"
        if self._in_cell:
            self.cells.append("")
        for name, value in attributes:
            if name in ("src", "href", "xlink:href") and not str(value).startswith("#"):
                self.outside.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._in_cell:
            self.cells[-1] += data


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.summary = summarize(study(WHOLE))
        cls.folder = tempfile.TemporaryDirectory()
        out = Path(cls.folder.name)
        record = {"command": "scripts/train.sh <x>", "machine": {"cores": 2, "processor": "a CPU"}, "results": study(WHOLE)}
        (out / "results.json").write_text(json.dumps(record))
        subprocess.run(
            [sys.executable, str(SOURCE / "scripts" / "training"), "--from", str(out / "results.json")],
            check=True, capture_output=True, timeout=100,
        )  # fmt: skip
        cls.files = {file.name: file.read_text() for file in out.iterdir()}
        cls.page = _Page(cls.files["page.html"])

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def test_needs_no_other_file(self) -> None:
        self.assertEqual(self.page.outside, [])
        self.assertNotIn("@import", self.files["page.html"])
        self.assertEqual(self.page.curves, 3)

    def test_table_has_the_numbers_of_the_summary(self) -> None:
        expected = [cell for row in self.summary.rows for cell in tables.cells(self.summary, row)]
        self.assertEqual(self.page.cells, expected)
        self.assertIn(f"{self.summary.row('direct4').gap.mean:+.4f}", " ".join(self.page.cells))

    def test_says_what_follows_from_the_numbers_the_command_and_what_was_in_force(self) -> None:
        words = " ".join(" ".join(self.page.words).split())
        for sentence in of_study(self.summary):
            self.assertIn(sentence, words)
        for text in ("scripts/train.sh <x>", "2 cores (a CPU)", "own shard replica", "SDP4BIT_MIN_BYTES=64K", "2.28.9 (emulated)"):
            self.assertIn(text, words)

    def test_curves_are_whole_svg_files(self) -> None:
        for name in ("losses.svg", "gaps.svg"):
            self.assertTrue(self.files[name].startswith("<svg"), name)
            self.assertTrue(self.files[name].rstrip().endswith("</svg>"), name)
            self.assertIsNone(re.search(r"\bnan\b", self.files[name].lower()), name)

    def test_a_folder_that_cannot_be_made_is_one_line_and_an_error(self) -> None:
        said = subprocess.run(
            [sys.executable, str(SOURCE / "scripts" / "training"), "--from", f"{self.folder.name}/results.json", "--out", "/proc/x"],
            capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        self.assertEqual(said.returncode, 2)
        self.assertRegex(said.stderr, r"\Acannot go on: /proc/x: .*\n\Z")

    def test_the_same_numbers_give_the_same_files(self) -> None:
        again = Path(self.folder.name) / "again"
        subprocess.run(
            [sys.executable, str(SOURCE / "scripts" / "training"), "--from", f"{self.folder.name}/results.json", "--out", str(again)],
            check=True, capture_output=True, timeout=100,
        )  # fmt: skip
        for name in ("page.html", "losses.svg", "gaps.svg", "summary.md", "curves.csv"):
            self.assertEqual((again / name).read_text(), self.files[name], name)

    def test_the_curves_of_the_documents_are_those_of_the_study_beside_them(self) -> None:
        kept = SOURCE / "docs" / "training"
        drawn_by = re.search(r"Matplotlib v([0-9.]+),", (kept / "gaps.svg").read_text()).group(1)
        if matplotlib.__version__ != drawn_by:
            self.skipTest(f"matplotlib {matplotlib.__version__} draws otherwise than {drawn_by}, which drew docs/training/*.svg")
        summary = summarize(json.loads((kept / "results.json").read_text())["results"])
        for name, curve in (("losses.svg", curves.losses(summary)), ("gaps.svg", curves.gaps(summary))):
            self.assertEqual((kept / name).read_text(), curve, f"draw docs/training/{name} anew by --from")


if __name__ == "__main__":
    unittest.main()

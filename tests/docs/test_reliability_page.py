"""docs/reliability.md says what the kept figures say, those tell of no failure, and every finding has its test."""

from __future__ import annotations

import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/reliability"))
import page  # noqa: E402
import results  # noqa: E402

RESULTS = json.loads((ROOT / "docs/reliability/results.json").read_text(encoding="utf-8"))
FINDINGS = json.loads((ROOT / "docs/reliability/findings.json").read_text(encoding="utf-8"))
FIGURES = [figures for entry in RESULTS.values() for figures in entry["figures"]]


class ReliabilityPage(unittest.TestCase):
    def test_the_page_is_made_from_the_figures(self) -> None:
        written = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
        self.assertEqual(page.markdown(RESULTS, FINDINGS), written, "make it anew: scripts/reliability.sh --page")

    def test_every_kind_has_figures(self) -> None:
        self.assertEqual({page.kind_of(figures) for figures in FIGURES}, set(page.SECTIONS))

    def test_every_table_says_where_it_is_from(self) -> None:
        for name, entry in RESULTS.items():
            self.assertRegex(entry["commit"], r"^[0-9a-f]{10}$", name)
            self.assertRegex(entry["date"], r"^\d{4}-\d\d-\d\d$", name)

    def test_only_pages_may_differ_from_the_commit(self) -> None:
        self.assertEqual(results.measured_files(" M docs/reliability.md\nM  docs/a.md\n"), [])
        self.assertEqual(results.measured_files(" M docs/a.md\n M plugin/log.cpp\n"), ["plugin/log.cpp"])

    def test_no_figure_tells_of_a_failure(self) -> None:
        for figures in FIGURES:
            for name in ("findings", "violations", "silent_nan", "other_numbers"):
                self.assertEqual(figures.get(name, 0), 0, figures)
            self.assertEqual(figures.get("mistakes_found"), figures.get("mistakes"))
            for kind, count in figures.get("by_kind", {}).items():
                self.assertIn(kind, page.FAULTS)
                self.assertEqual(count["injected"], count["finished_right"] + count["ended_with_errors"], kind)

    def test_every_finding_has_its_test(self) -> None:
        sources = [path for folder in ("tests", "sandbox") for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".txt", ".py")]
        text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
        for finding in FINDINGS:
            self.assertTrue(finding["kept_by"], finding)
            for name in finding["kept_by"]:
                if "/" in name:
                    self.assertTrue((ROOT / name).exists(), name)
                else:
                    self.assertRegex(text, r"(?<![\w.])" + re.escape(name) + r"(?![\w.])", name)


if __name__ == "__main__":
    unittest.main()

"""docs/reliability.md says what the kept figures say, and those tell of no failure."""

from __future__ import annotations

import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/reliability"))
import page  # noqa: E402

RESULTS = json.loads((ROOT / "docs/reliability/results.json").read_text(encoding="utf-8"))


class ReliabilityPage(unittest.TestCase):
    def test_the_page_is_made_from_the_figures(self) -> None:
        written = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
        self.assertEqual(page.markdown(RESULTS), written, "make it anew: scripts/reliability.sh --page")

    def test_every_kind_has_figures(self) -> None:
        self.assertEqual({page.kind_of(figures) for figures in RESULTS if "note" not in figures}, set(page.SECTIONS))

    def test_no_figure_tells_of_a_failure(self) -> None:
        for figures in RESULTS:
            for name in ("findings", "violations", "silent_nan", "other_numbers"):
                self.assertEqual(figures.get(name, 0), 0, figures)
            self.assertEqual(figures.get("mistakes_found"), figures.get("mistakes"))


if __name__ == "__main__":
    unittest.main()

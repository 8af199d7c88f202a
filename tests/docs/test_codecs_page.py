"""The page of the codecs says what the program `codecs` measures, for the defaults and the paper's codecs."""

import json
import re
import subprocess
import unittest

import built
import pages

PAGE = pages.ROOT / "docs/codecs.md"
# Of an error's third digit; another libm may round a made-up number otherwise.
TOLERANCE = 0.01


class CodecsPage(unittest.TestCase):
    def setUp(self) -> None:
        self.page = PAGE.read_text(encoding="utf-8")

    def row(self, codec: str) -> list:
        found = re.search(rf"^\| \**{re.escape(codec)}\** \|(.*)\|$", self.page, re.MULTILINE)
        self.assertIsNotNone(found, f"the page has no row of {codec}")
        return [float(text) for text in re.findall(r"[\d.]+(?=\s*(?:\||$))", found[1])]

    def test_errors_on_made_up_numbers_are_reproduced(self) -> None:
        program = built.folder() / "bin/codecs"
        for codec, sets in (
            ("int4-sr g128 fp32", ("gauss", "student")),
            ("dither4 g64 bf16", ("gauss", "student")),
            ("int8-sr g64 bf16", ("gauss", "student")),
            ("int4 g2048 fp32", ("gauss",)),
            ("compand4 g1024 bf16", ("gauss",)),
        ):
            with self.subTest(codec):
                done = subprocess.run([program, "--draws", "0", "--only", codec], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                (measured,) = json.loads(done.stdout)["rows"]
                stated = self.row(codec)
                self.assertAlmostEqual(stated[0], measured["bits"], delta=0.001)
                for value, name in zip(stated[2:], sets):
                    self.assertAlmostEqual(value, measured[name], delta=TOLERANCE * measured[name])

    def test_dithered_codes_are_unbiased(self) -> None:
        """On the page, 10,000 draws: no default is beyond 4 standard errors."""
        for codec in ("dither4 g64 bf16", "int8-sr g64 bf16", "int4-sr g128 fp32", "int8-sr g128 fp32"):
            self.assertLess(self.row(codec)[-1], 4.0, codec)

    def test_defaults_beat_the_paper_by_what_was_promised(self) -> None:
        self.assertLess(self.row("dither4 g64 bf16")[-2], 0.40)
        self.assertLess(self.row("compand4 g1024 bf16")[-1], 0.60)


if __name__ == "__main__":
    unittest.main()

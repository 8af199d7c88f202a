"""The kernels' machine code: instructions an element within bounds, no local memory, 16-byte accesses.

usage: test_sass.py PROGRAM ARCHITECTURE
"""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench/kernels"))

from bounds import BOUNDS  # noqa: E402
from sass.cubin import find_tool  # noqa: E402

SKIPPED = 77
PROGRAM, ARCHITECTURE = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) == 3 else ("", 0)


class MachineCode(unittest.TestCase):
    rows: dict = {}

    @classmethod
    def setUpClass(cls) -> None:
        done = subprocess.run(
            [sys.executable, "-B", str(ROOT / "bench/kernels/sass_counts.py"), PROGRAM, "--json"]
            + ["--arch", str(ARCHITECTURE), *(bound.row for bound in BOUNDS)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(done.stderr.strip())
        bounded = {bound.row for bound in BOUNDS}
        costs = json.loads(done.stdout)[f"sm_{ARCHITECTURE}"]
        cls.rows = {cost["row"]: cost for cost in costs if cost["row"] in bounded}

    def test_instructions_of_an_element_are_within_their_bounds(self) -> None:
        wrong = []
        for bound in BOUNDS:
            if bound.row not in self.rows:
                wrong.append(f"{bound.row}: there is no such row")
                continue
            found = self.rows[bound.row]["per_element"]
            print(f"{bound.row:<68} {found:6.2f} (bound {bound.per_element}, goal {bound.goal})")
            if ARCHITECTURE == 90 and found > bound.per_element:
                wrong.append(f"{bound.row}: {found:.2f} instructions an element, at most {bound.per_element}")
        self.assertEqual(wrong, [])

    def test_nothing_lies_in_local_memory(self) -> None:
        spilled = {row: cost["local_accesses"] for row, cost in self.rows.items() if cost["local_accesses"]}
        self.assertEqual(spilled, {})
        self.assertEqual({row: cost["stack_bytes"] for row, cost in self.rows.items() if cost["stack_bytes"]}, {})

    def test_whole_tiles_move_in_accesses_of_16_bytes(self) -> None:
        """All but scales, which each block reads: 4 bytes beside 32 of 8-bit codes."""
        for row, cost in self.rows.items():
            with self.subTest(row):
                self.assertGreaterEqual(cost["wide_share"], 0.9)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: test_sass.py PROGRAM ARCHITECTURE")
    if find_tool("nvdisasm") is None:
        print("skipped: no nvdisasm (PyPI's nvidia-cuda-nvdisasm); scripts/test.sh gets it")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])

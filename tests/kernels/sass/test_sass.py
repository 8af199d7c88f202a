"""The kernels' machine code: instructions an element within bounds, no local memory, 16-byte accesses.

usage: test_sass.py PROGRAM ARCHITECTURE
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Dict

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench/kernels"))

from bounds import BOUNDS  # noqa: E402
from sass import launch, listing  # noqa: E402
from sass.cost import Cost, Mismatch, measure  # noqa: E402
from sass.cubin import find_tool  # noqa: E402
from sass_counts import count_launch, kernels_of, record_launches  # noqa: E402

SKIPPED = 77
PROGRAM, ARCHITECTURE = (Path(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) == 3 else (Path(), 0)
BOUNDED = {bound.row for bound in BOUNDS}


class MachineCode(unittest.TestCase):
    rows: Dict[str, Cost] = {}

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="sass-")
        folder = Path(cls.folder.name)
        files = record_launches(PROGRAM, sorted(BOUNDED), folder / "launches")
        cls.files = {launch.read_head(path)["row"]: path for path in files}
        sources = {listing.source_of(launch.read_head(path)["kernel"]) for path in files}
        cls.kernels = kernels_of(sources, ARCHITECTURE, folder)
        cls.rows = {
            row: count_launch(path, cls.kernels, ARCHITECTURE) for row, path in cls.files.items() if row in BOUNDED
        }

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def test_every_bound_is_of_a_row(self) -> None:
        self.assertEqual(BOUNDED - set(self.rows), set())

    def test_instructions_of_an_element_are_within_their_bounds(self) -> None:
        wrong = []
        for bound in BOUNDS:
            found = self.rows[bound.row].per_element
            print(f"{bound.row:<72} {found:6.2f} (bound {bound.per_element}, goal {bound.goal})")
            entry = self.rows[bound.row].entry_per_element
            if ARCHITECTURE == 90 and found > bound.per_element:
                wrong.append(f"{bound.row}: {found:.2f} instructions an element, at most {bound.per_element}")
            if ARCHITECTURE == 90 and entry > bound.entry:
                wrong.append(f"{bound.row}: {entry:.2f} instructions an element at entry, at most {bound.entry}")
        self.assertEqual(wrong, [])

    def test_nothing_lies_in_local_memory(self) -> None:
        """In no kernel of the sources: those of other types and codecs, and paths that no row takes, included."""
        for name, kernel in self.kernels.items():
            with self.subTest(name):
                local = [each.name for each in kernel.instructions if each.base in ("LDL", "STL")]
                self.assertEqual((local, kernel.stack_bytes), ([], 0))

    def test_whole_tiles_move_in_accesses_of_16_bytes(self) -> None:
        """All but scales, and 4-bit codes where a lane's elements lie in pieces of 8: half a byte of an element's 6.5."""
        for bound in BOUNDS:
            with self.subTest(bound.row):
                self.assertGreaterEqual(self.rows[bound.row].wide_share, bound.wide_share)

    def test_a_changed_instruction_is_noticed(self) -> None:
        """So what is counted is code that computes the right numbers, on the path that they take."""
        row = BOUNDS[0].row
        path = self.files[row]
        kernel = self.kernels[listing.stable_name(launch.read_head(path)["kernel"])]
        changed = 0
        for place, instruction in enumerate(kernel.instructions):
            if instruction.name == "FADD" and not instruction.guard and changed < 40:
                result, first, second = instruction.operands
                second = second[1:] if second.startswith("-") else "-" + second
                kernel.instructions[place] = replace(instruction, operands=(result, first, second))
                changed += 1
        with self.assertRaises(Mismatch):
            measure(path, kernel, ARCHITECTURE)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: test_sass.py PROGRAM ARCHITECTURE")
    if find_tool("nvdisasm") is None:
        print("skipped: no nvdisasm (PyPI's nvidia-cuda-nvdisasm); scripts/test.sh gets it")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])

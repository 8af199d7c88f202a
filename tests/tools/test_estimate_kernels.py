"""The bytes and instructions of kernels that `sdp4bit estimate` assumes are those that the emulated GPU counts."""

import pathlib
import re
import subprocess
import sys
import unittest

import support

sys.path.insert(0, str(pathlib.Path(support.TOOL).resolve().parent))
from sdp4bit_tool.estimate_kernels import gradient_kernels, weight_kernels  # noqa: E402

LIBRARY, PROGRAM = support.take_arguments(2)
LINE = re.compile(
    r"sandbox: counters: .*?(\w+)_kernel.*launches=(\d+) lane_instructions=(\d+) global_bytes_loaded=(\d+) "
    r"global_bytes_stored=(\d+)"
)
SEGMENT = 65536  # elements of one rank: whole tiles, so that nothing is rounded up


def count(collective, nodes, local, type_name, width):
    """By kernel, (bytes, instructions) of one launch on each rank, averaged over the ranks."""
    size = SEGMENT * nodes * local * width
    variables = {
        **support.clean_environment(),
        "LD_PRELOAD": LIBRARY,
        "SDP4BIT_MIN_BYTES": "0",
        "SDP4BIT_COMMS": "all",
        "SANDBOX_COUNTERS": "1",
    }
    warm = "10" if collective == "all_gather" else "3"
    result = subprocess.run(
        [
            PROGRAM,
            collective,
            "-b",
            str(size),
            "-d",
            type_name,
            "--nodes",
            str(nodes),
            "-g",
            str(local),
            "-w",
            warm,
            "-n",
            "4",
            "-c",
            "0",
        ],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    sums = {}
    for name, launches, *numbers in LINE.findall(result.stdout + result.stderr):
        per_launch = [int(number) / int(launches) for number in numbers]
        sums.setdefault(name, []).append((per_launch[1] + per_launch[2], per_launch[0]))
    return {name: tuple(sum(part) / len(found) for part in zip(*found)) for name, found in sums.items()}


class Kernels(unittest.TestCase):
    def compare(self, counted, model):
        for name, cost in model.items():
            with self.subTest(name):
                bytes_, instructions = counted[name]
                self.assertAlmostEqual(cost.bytes / bytes_, 1, delta=0.08)
                self.assertAlmostEqual(cost.instructions / instructions, 1, delta=0.08)

    def test_gradients_on_two_levels(self):
        self.compare(count("reduce_scatter", 2, 2, "bfloat16", 2), gradient_kernels(SEGMENT * 4, 2, 2, 2))

    def test_gradients_on_one_level(self):
        self.compare(count("reduce_scatter", 3, 1, "float", 4), gradient_kernels(SEGMENT * 3, 4, 3, 1))

    def test_weights_with_and_without_ranks_in_the_node(self):
        self.compare(count("all_gather", 2, 2, "bfloat16", 2), weight_kernels(SEGMENT * 4, 2, 2))
        self.compare(count("all_gather", 3, 1, "bfloat16", 2), weight_kernels(SEGMENT * 3, 3, 1))


if __name__ == "__main__":
    unittest.main()

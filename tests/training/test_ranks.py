"""What a few steps on two emulated nodes promise: one curve, equal ranks, snapshots that can be read, a clear end if a
rank fails. usage: test_ranks.py BUILD"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy  # torch brings it

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "05_train_gpt"
BUILD = ""


def train(out: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(EXAMPLE / "ranks.py"), "--build", BUILD, "--nodes", "2", "--ranks-per-node", "1", "--"]
    short = ["--steps", "3", "--batch", "2", "--validation", "4", "--evaluate-every", "2", "--out", str(out)]
    return subprocess.run(
        [*program, *short, *words], env={**os.environ, **variables}, capture_output=True, text=True, timeout=150
    )


class Ranks(unittest.TestCase):
    def test_agree_and_write_what_they_saw(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            said = train(out, "--snapshots", str(out / "snapshots"), "--snapshot-every", "2")
            self.assertEqual(said.returncode, 0, said.stderr)
            ranks = [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(2)]
            self.assertEqual(ranks[0]["curve"], ranks[1]["curve"])
            self.assertEqual([point["step"] for point in ranks[0]["curve"]], [0, 2, 3])
            self.assertEqual(len(ranks[0]["weights"]), 4)
            self.assertEqual(len(set(ranks[0]["weights"])), 4)  # each step changes them
            self.assertEqual(ranks[0]["weights"], ranks[1]["weights"])
            for rank in ranks:
                self.assertIn(f"rank {rank['rank']}: weights {rank['weights'][-1]} at the end", said.stdout)
                self.assertGreater(rank["traffic"]["between_nodes"], 3 * 2 * rank["settings"]["parameters"])
            self.check_snapshots(out / "snapshots", sum(ranks[0]["settings"]["bucket_shards"]))

    def check_snapshots(self, folder: Path, shard: int) -> None:
        self.assertEqual(len(list(folder.iterdir())), 2 * 2 * 2)
        for rank in range(2):
            for step in (0, 2):
                gradient = numpy.load(folder / f"gradient_bf16_step{step}_rank{rank}.npy")
                self.assertEqual((gradient.dtype, gradient.shape), (numpy.uint16, (2 * shard,)))
                widened = (gradient.astype(numpy.uint32) << 16).view(numpy.float32)
                self.assertTrue(numpy.isfinite(widened).all() and widened.any())
                difference = numpy.load(folder / f"weight_difference_f32_step{step}_rank{rank}.npy")
                self.assertEqual((difference.dtype, difference.shape), (numpy.float32, (shard,)))
                # Adam's first steps are as large as the rate, 3e-3 after 20 steps of warming up; bf16 rounds weights near 1.
                self.assertTrue(0.0 < numpy.abs(difference).max() < 0.02)

    def test_without_gpus_torch_is_refused_in_one_line(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run(
                [sys.executable, str(EXAMPLE / "train.py"), "--transport", "torch", "--out", folder],
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, timeout=100,
            )  # fmt: skip
            self.assertEqual(said.returncode, 1)
            self.assertIn("--transport ctypes", said.stderr.splitlines()[-1])
            self.assertNotIn("Traceback", said.stderr)

    def test_end_together_when_one_fails(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            said = train(Path(folder), SANDBOX_NCCL_FAULT="fail:call=3,rank=1,code=6")
            self.assertNotEqual(said.returncode, 0)
            self.assertIn("train.py, rank 1: nccl", said.stderr)
            self.assertNotIn("Traceback", said.stderr)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()

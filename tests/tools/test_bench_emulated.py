"""`sdp4bit bench --emulated`, as a user runs it: real bytes, labelled times, and a result that `report` takes."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import support

LIBRARY, PROGRAM = support.take_arguments(2)


class Emulated(unittest.TestCase):
    def test_bytes_are_those_of_the_formats_and_times_are_labelled(self):
        with tempfile.TemporaryDirectory() as folder:
            output = str(pathlib.Path(folder) / "bench.json")
            result = support.sdp4bit(
                "bench",
                "--emulated",
                "--nodes",
                "2",
                "--gpus",
                "2",
                "--begin",
                "256K",
                "--end",
                "256K",
                "--iterations",
                "2",
                "--warmup",
                "14",
                "-o",
                output,
                variables={"SDP4BIT_MIN_BYTES": "0"},
                seconds=200,
            )
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("Byte counts and errors are real, times are not.", result.stdout)
            self.assertNotIn("did not say that it works", result.stderr)
            found = json.loads(pathlib.Path(output).read_text())
            self.assertTrue(found["emulated"])
            sent = {(row["collective"], row["variant"]): row["bytes_between_nodes"] for row in found["rows"]}
            # A rank sends a quarter of the buffer to the other node: 16 bits an element, 4.25, and 4.016 and a header.
            self.assertEqual(sent["reduce_scatter", "native"], 65536)
            self.assertAlmostEqual(sent["reduce_scatter", "sdp4bit"] / 65536, 4.25 / 16, delta=0.01)
            self.assertAlmostEqual(sent["all_gather", "sdp4bit"] / 65536, 4.016 / 16, delta=0.01)
            page = support.sdp4bit("report", output, "-o", str(pathlib.Path(folder) / "page.html"))
            self.assertEqual(page.returncode, 0, page.stderr)
            self.assertIn("times are not: this was the emulated cluster", page.stdout)


# Starts four tasks, two for each of two nodes, on this machine.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
for rank in 0 1 2 3; do
  SLURM_PROCID=$rank SLURM_NTASKS=4 SLURM_LOCALID=$rank NCCL_HOSTID=node$((rank / 2)) SANDBOX_DEVICES=4 "$@" & tasks+=($!)
done
for task in "${tasks[@]}"; do wait "$task" || code=1; done
exit ${code:-0}
"""


class Printed(unittest.TestCase):
    def test_lines_run_as_they_are_printed(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "srun").write_text(SRUN)
            (folder / "srun").chmod(0o755)
            (folder / "sdp4bit").symlink_to(pathlib.Path(support.TOOL).resolve())
            variables = {"SDP4BIT_MIN_BYTES": "0", "PATH": f"{folder}:{os.environ['PATH']}"}
            printed = support.sdp4bit(
                "bench",
                "--program",
                PROGRAM,
                "--library",
                LIBRARY,
                "--nodes",
                "2",
                "--gpus",
                "2",
                "--begin",
                "64K",
                "--end",
                "64K",
                "--repeats",
                "1",
                "--iterations",
                "2",
                "--collectives",
                "reduce_scatter",
                "--print",
                "srun",
                variables=variables,
                folder=name,
            )
            self.assertEqual((printed.returncode, printed.stderr), (0, ""))
            done = subprocess.run(
                ["bash", "-e"],
                input=printed.stdout,
                env={**support.clean_environment(), **variables},
                cwd=name,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("16.4 kB     4.42 kB", done.stdout)
            self.assertTrue(json.loads((folder / "bench.json").read_text())["emulated"])


if __name__ == "__main__":
    unittest.main()

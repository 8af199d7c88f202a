"""scripts/gpu.sh without a GPU: it says so, and its steps work with the emulated GPU and NCCL."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

(BUILD,) = support.take_arguments(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command: str, path: str = "") -> subprocess.CompletedProcess:
    environment = support.clean_environment()
    if path:
        environment["PATH"] = path
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


def steps(folder: str, build: str = BUILD, seconds: str = "280") -> tuple:
    """The script's second half, behind the build."""
    out = pathlib.Path(folder) / "result.json"
    command = [sys.executable, str(ROOT / "scripts/gpu"), "--emulated", "--build", build, "--out", str(out)]
    done = run(*command, "--seconds", seconds)
    return done, json.loads(out.read_text()) if out.exists() else None


class GpuScript(unittest.TestCase):
    def without_gpu(self, *arguments: str) -> subprocess.CompletedProcess:
        """Where no nvidia-smi is found."""
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("bash", "dirname", "sed", "grep", "echo", "cat"):
                found = next(
                    path
                    for each in os.environ["PATH"].split(os.pathsep)
                    if (path := pathlib.Path(each) / tool).exists()
                )
                (pathlib.Path(folder) / tool).symlink_to(found)
            return run(str(pathlib.Path(folder) / "bash"), "scripts/gpu.sh", *arguments, path=folder)

    def test_without_a_gpu_it_says_so_and_what_it_would_do(self) -> None:
        done = self.without_gpu()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "skipped: no GPU")
        self.assertIn("kernels equal the reference", done.stdout)
        self.assertEqual(self.without_gpu("--require-gpu").returncode, 1)

    def test_all_steps_pass_on_the_emulated_machine(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done, result = steps(folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(result["emulated"])
        self.assertEqual(result["failures"], [])
        tests, kernels, native, compressed = result["steps"]
        self.assertGreater(tests["result"]["cases"], 0)
        self.assertGreater(len(kernels["result"]["rows"]), 20)
        of = {name: step["result"] for name, step in (("native", native), ("compressed", compressed))}
        gradients = {name: next(row for row in rows if row["collective"] == "reduce_scatter") for name, rows in of.items()}
        self.assertLess(
            gradients["compressed"]["bytes_between_nodes"], 0.3 * gradients["native"]["bytes_between_nodes"]
        )

    def test_what_fails_is_named_and_ends_in_a_failure(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done, result = steps(folder, build=folder)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(result["failures"]), 4)
            self.assertIn("kernels_gradient", result["failures"][0])
            done, result = steps(folder, seconds="0")
            self.assertEqual(result["failures"][1], "kernels: no time was left")


if __name__ == "__main__":
    unittest.main()

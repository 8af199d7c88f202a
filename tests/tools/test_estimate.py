"""`sdp4bit estimate`: a model that keeps its promises, a table that cannot drift, and one line for each wrong input."""

import json
import math
import pathlib
import sys
import tempfile
import unittest
from dataclasses import replace

import support

sys.path.insert(0, str(pathlib.Path(support.TOOL).resolve().parent))
from sdp4bit_tool import published  # noqa: E402
from sdp4bit_tool.estimate_kernels import GPUS  # noqa: E402
from sdp4bit_tool.estimate_model import Cluster, Training, compute_of, predict, shape_of, step  # noqa: E402

JOB = (
    "--params",
    "7e9",
    "--nodes",
    "16",
    "--gpus",
    "8",
    "--nic-gbit",
    "400",
    "--nvlink-gbyte",
    "450",
    "--step-ms",
    "900",
)
SLOW = Cluster(16, 8, 25e9, 360e9, GPUS["h100"])
FAST = replace(SLOW, network=1e15)


class Model(unittest.TestCase):
    def test_the_native_step_is_what_was_measured(self):
        for overlap in (0.0, 0.5, 1.0):
            for accumulation in (1, 8):
                for full in (False, True):
                    training = Training(1e9, accumulation=accumulation, overlap=overlap, full_sharding=full)
                    measured = 3 * step(SLOW, training, 0.0, False).total
                    compute = compute_of(SLOW, training, measured)
                    self.assertAlmostEqual(step(SLOW, training, compute, False).total, measured, places=6)

    def test_bytes_between_nodes_are_those_of_the_formats(self):
        found = predict(SLOW, Training(7e9), compute=1.0)
        # fp32 and bf16 against 4.25 and 4.016 bits, 15 of 16 nodes.
        self.assertAlmostEqual(found.native.between, 7e9 * 6 * 127 / 128)
        self.assertAlmostEqual(found.sdp4bit.between, 7e9 * 15 / 16 * (4.25 + 4.015625) / 8)

    def test_slower_networks_gain_more(self):
        gains = [
            predict(replace(SLOW, network=speed), Training(7e9), compute=1.0).speedup
            for speed in (5e9, 10e9, 20e9, 40e9, 80e9)
        ]
        self.assertEqual(gains, sorted(gains, reverse=True))
        self.assertGreater(gains[0], 2)

    def test_both_steps_take_the_same_at_the_break_even(self):
        cluster = replace(SLOW, gpu=GPUS["a100"])
        found = predict(cluster, Training(7e9, gradient_bytes=2), compute=1.0)
        self.assertIsNotNone(found.break_even)
        at = replace(cluster, network=found.break_even)
        self.assertAlmostEqual(predict(at, Training(7e9, gradient_bytes=2), compute=1.0).speedup, 1.0, places=6)
        for factor, faster in ((0.5, True), (2.0, False)):
            there = replace(at, network=found.break_even * factor)
            self.assertEqual(predict(there, Training(7e9, gradient_bytes=2), compute=1.0).speedup > 1, faster)

    def test_one_node_gains_nothing(self):
        for cluster, training in (
            (replace(SLOW, nodes=1), Training(7e9)),
            (replace(SLOW, nodes=2), Training(7e9, pipeline=2)),
            (SLOW, Training(7e9, tensor=8, pipeline=16)),
        ):
            self.assertEqual(predict(cluster, training, compute=1.0).speedup, 1.0)

    def test_full_sharding_leaves_weights_native(self):
        found = predict(SLOW, Training(7e9, full_sharding=True, accumulation=4), compute=1.0)
        self.assertEqual(found.native.phases["weights"], found.sdp4bit.phases["weights"])
        self.assertAlmostEqual(found.native.phases["weights"].between, 8 * 7e9 * 2 * 127 / 128)
        self.assertLess(found.sdp4bit.phases["gradients"].total, found.native.phases["gradients"].total)

    def test_hidden_communication_is_bounded_by_compute(self):
        training = Training(7e9, overlap=1.0, accumulation=10)
        found = step(SLOW, training, 0.1, False)
        for name, share in (("gradients", 0.6), ("weights", 0.3)):
            self.assertAlmostEqual(found.exposed[name], found.phases[name].total - share * 0.1 / 10)

    def test_ranks_are_placed_as_megatron_places_them(self):
        cases = (
            (1, 1, (128, 16, 8, 1)),
            (4, 1, (32, 16, 2, 4)),
            (8, 1, (16, 16, 1, 8)),
            (4, 2, (16, 8, 2, 4)),
            (8, 16, (1, 1, 1, 8)),
        )
        for tensor, pipeline, (ranks, nodes, local, sharing) in cases:
            shape = shape_of(SLOW, Training(7e9, tensor, pipeline))
            self.assertEqual((shape.ranks, shape.nodes, shape.local, shape.sharing), (ranks, nodes, local, sharing))


class Published(unittest.TestCase):
    def test_the_page_holds_the_table_as_it_is_now(self):
        page = pathlib.Path(support.TOOL).resolve().parents[1] / "docs" / "estimate.md"
        self.assertIn(
            published.table(),
            page.read_text(encoding="utf-8"),
            "write it anew: `sdp4bit estimate --published` into docs/estimate.md, and read what the page says of it",
        )

    def test_one_row_is_fitted_and_reproduced(self):
        for cluster in published.PUBLISHED:
            checks = published.check(cluster, published.fit_network(cluster))
            (fitted,) = [each for each in checks if each.fitted]
            self.assertAlmostEqual(fitted.error, 0, places=3)
            for each in checks:
                self.assertGreater(each.compute, 0)

    def test_models_have_the_sizes_that_they_are_named_for(self):
        for name, model in published.MODELS.items():
            self.assertLess(abs(model.parameters / (float(name[:-1]) * 1e9) - 1), 0.03, name)


class Command(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)

    def refuse(self, *words, parts=()):
        result = support.in_this_process("estimate", *words)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_a_prediction_is_a_table_and_its_assumptions(self):
        result = support.sdp4bit("estimate", *JOB)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for part in (
            "instead of 900 ms",
            "Break-even",
            "8 x 400 Gbit/s of a node (one for each GPU",
            "off on 16 x 4 A100",
        ):
            self.assertIn(part, result.stdout)

    def test_the_verdict_does_not_contradict_itself(self):
        for milliseconds in ("900", "3000", "30000", "3000000"):
            with self.subTest(milliseconds):
                said = support.in_this_process("estimate", *JOB, "--step-ms", milliseconds).stdout.splitlines()[0]
                self.assertNotIn("no faster", said)
                self.assertIn("faster by under 0.5 %" if float(milliseconds) >= 30000 else "times as fast", said)
                self.assertIn("it is slower at no network speed" if "none" in said else "is faster below", said)

    def test_json_agrees_with_itself(self):
        found = json.loads(
            support.in_this_process("estimate", *JOB, "--nics", "2", "--step-ms", "1500", "--json").stdout
        )
        self.assertAlmostEqual(found["native"]["seconds"], 1.5, places=6)
        self.assertAlmostEqual(found["speedup"], found["native"]["seconds"] / found["sdp4bit"]["seconds"])
        self.assertTrue(math.isclose(found["network_bytes_per_second_of_a_node"], 2 * 50e9 * 0.85))
        self.assertEqual(found["data_parallel"]["ranks"], 128)

    def test_plots_and_pages_are_written(self):
        if not support.has_matplotlib():
            self.skipTest("matplotlib is missing")
        folder = pathlib.Path(self.temporary.name)
        for kind, head in (("svg", b"<?xml"), ("png", b"\x89PNG")):
            result = support.sdp4bit(
                "estimate", *JOB, "--plot", str(folder / f"plot.{kind}"), "--html", str(folder / "page.html")
            )
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue((folder / f"plot.{kind}").read_bytes().startswith(head))
        self.assertNotIn("var(--", (folder / "plot.svg").read_text())
        page = (folder / "page.html").read_text()
        for part in ("Step time over network speed", "Against published numbers", "Assumptions"):
            self.assertIn(part, page)

    def test_a_measured_network_is_used_and_compared(self):
        def row(variant, time, busbw):
            return {
                "collective": "reduce_scatter",
                "type": "bfloat16",
                "redop": "sum",
                "bytes": 1 << 30,
                "variant": variant,
                "repeat": 0,
                "time_us": time,
                "algbw": busbw,
                "busbw": busbw,
            }

        path = pathlib.Path(self.temporary.name) / "bench.json"
        content = {
            "sdp4bit_bench": 1,
            "emulated": False,
            "nodes": 2,
            "gpus": 8,
            "rows": [row("native", 1e5, 10.0), row("sdp4bit", 4e4, 25.0)],
        }
        path.write_text(json.dumps(content))
        words = JOB[:6] + ("--step-ms", "9000", "--from", str(path), "--json")
        found = json.loads(support.in_this_process("estimate", *words).stdout)
        self.assertEqual(found["network_bytes_per_second_of_a_node"], 10e9)
        self.assertEqual(found["bench_reduce_scatter_speedup"]["measured"], 2.5)
        self.assertGreater(found["bench_reduce_scatter_speedup"]["model"], 1.5)
        path.write_text(json.dumps({**content, "emulated": True}))
        self.refuse(*words, parts=("emulated cluster", "measure on the cluster itself"))
        path.write_text(json.dumps({**content, "one_machine": True}))
        self.refuse(*words, parts=("one machine that plays 2 nodes", "nothing crossed a network", "--launch"))
        path.write_text("{")
        self.refuse(*words, parts=("bench.json", "ends in the middle"))
        path.unlink()
        self.refuse(*words, parts=("bench.json", "cannot be read"))

    def test_wrong_inputs_are_one_line(self):
        for words, parts in (
            (("--nodes", "0"), ("--nodes", "'0' is out of range", "whole number from 1")),
            (("--params", "-7"), ("--params", "above 0")),
            (("--params=-7e9",), ("--params", "above 0")),
            (("--params", "7 bananas"), ("7 bananas", "7e9 or 7B")),
            (("--nic-gbit", "400Gbit"), ("--nic-gbit", "without a unit")),
            (("--gpus", "2.5"), ("no whole number",)),
            (("--overlap", "2"), ("--overlap", "0 to 1")),
            (("--step-ms", "nan"), ("--step-ms", "no number")),
            (("--tensor-parallel", "3"), ("128 GPUs cannot be divided by 3 x 1",)),
            (("--step-ms", "20"), ("longer than the step of 20 ms",)),
            (("--compute-ms", "3"), ("give the one that was measured",)),
            (("--network-efficiency", "0"), ("--network-efficiency is 0",)),
            (("--gpu", "h1000"), ("h1000",)),
            (("--plot", "plot.jpeg"), (".svg or .png",)),
            (("--html", "/nowhere/page.html"), ("/nowhere/page.html cannot be written",)),
        ):
            with self.subTest(words):
                self.refuse(*JOB, *words, parts=parts)
        self.refuse("--params", "7e9", parts=("needs --nodes, --gpus", "--step-ms", "for example"))


if __name__ == "__main__":
    unittest.main()

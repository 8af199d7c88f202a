"""`sdp4bit bench`: lines that a cluster can run, outputs read as they are, pairs compared, and one line for each mistake."""

import csv
import io
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import support

sys.path.insert(0, str(pathlib.Path(support.TOOL).resolve().parent))
from sdp4bit_tool import bench_programs, bench_results, process_group  # noqa: E402
from sdp4bit_tool.bench_output import engaged_version, parse_output  # noqa: E402
from sdp4bit_tool.bench_programs import Programs, Run, Sweep, environment_of, make_runs  # noqa: E402

EMULATED_LINE = (
    '{"collective": "reduce_scatter", "size": 4194304, "count": 524288, "type": "bfloat16", "redop": "sum",'
    ' "in_place": false, "time_us": 100.0, "algbw_gbps": 41.9, "busbw_gbps": 31.4, "bytes_in_node": 540737.0,'
    ' "bytes_between_nodes": 139328.0, "bits_between_nodes": 4.252, "relative_error": 1.17e-01, "maximum_error":'
    ' null, "ranks_agree": null}'
)
COLLECTIVES_LINE = EMULATED_LINE.replace("540737.0", "null").replace(
    "139328.0", "null"
)  # NVIDIA's NCCL counts no bytes
NCCL_TESTS = """# nThread 1 nGpus 1 minBytes 4194304 maxBytes 8388608 step: 2(factor) warmup iters: 20 iters: 20 agg iters: 1 validation: 0
#  Rank  0 Group  0 Pid  1 on node0 device  0 [0x00] NVIDIA H100
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     4194304        131072  bfloat16     sum      -1   123.45   33.97   31.85    N/A   120.00   34.95   32.77    N/A
     8388608        262144  bfloat16     sum      -1   2.2e+02  38.13   35.75      0   210.00   39.95   37.45      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 34.4
"""
WORKS = (
    "sdp4bit info r0 d0: works (version 0.1.0, NCCL 2.28.9): communicator of 16 ranks on 2 nodes; gradients 4 bits"
)


def rows(*times):
    """(variant, repeat, microseconds)."""
    return [
        bench_results.Row("reduce_scatter", "bfloat16", "sum", 4 << 20, variant, repeat, time, 1.0, 1000.0 / time)
        for variant, repeat, time in times
    ]


class Output(unittest.TestCase):
    def test_collectives_are_read(self):
        (row,) = parse_output(f"{WORKS}\n[1,0]<stdout>: {EMULATED_LINE}\nnoise {{}}\n", "sdp4bit", 2)
        self.assertEqual(
            (row.bytes, row.type, row.variant, row.repeat, row.busbw, row.bytes_between_nodes, row.relative_error),
            (4 << 20, "bfloat16", "sdp4bit", 2, 31.4, 139328.0, 0.117),
        )

    def test_nccl_tests_are_read_as_frameworks_call(self):
        reduced = parse_output(NCCL_TESTS, "native", 0, "reduce_scatter")
        self.assertEqual(
            [(row.bytes, row.time_us, row.busbw) for row in reduced],
            [(4 << 20, 123.45, 31.85), (8 << 20, 220.0, 35.75)],
        )
        gathered = parse_output(
            "\n".join(f"0: {line}" for line in NCCL_TESTS.splitlines()), "native", 0, "all_gather"
        )  # in place, with srun -l
        self.assertEqual([row.time_us for row in gathered], [120.0, 210.0])

    def test_engagement_is_seen(self):
        self.assertEqual(engaged_version(f"x\n{WORKS}\n"), "0.1.0")
        self.assertIsNone(engaged_version(COLLECTIVES_LINE))


class Results(unittest.TestCase):
    def test_repeats_are_compared_in_pairs(self):
        # The second repeat ran on a slower machine: pairs say 2.0, means of the variants would say 2.2.
        (pair,) = bench_results.pairs(
            rows(
                ("native", 0, 100.0),
                ("sdp4bit", 0, 50.0),
                ("native", 1, 300.0),
                ("sdp4bit", 1, 150.0),
                ("native", 2, 90.0),
                ("sdp4bit", 2, 60.0),
                ("native", 3, 1.0),
            )
        )
        self.assertEqual((pair.speedup, pair.speedup_low, pair.speedup_high), (2.0, 1.5, 2.0))

    def test_json_comes_back_and_csv_has_every_row(self):
        results = bench_results.Results(
            True, 2, 4, "collectives", "0.1.0", 5, rows(("native", 0, 100.0), ("sdp4bit", 0, 50.0))
        )
        self.assertEqual(bench_results.parse_results(json.loads(bench_results.to_json(results))), results)
        self.assertIn("times are not", json.loads(bench_results.to_json(results))["label"])
        table = list(csv.DictReader(io.StringIO(bench_results.to_csv(results))))
        self.assertEqual(
            [(row["variant"], row["time_us"], row["times"]) for row in table],
            [("native", "100.0", "emulated"), ("sdp4bit", "50.0", "emulated")],
        )


class Runs(unittest.TestCase):
    SWEEP = Sweep(
        ["reduce_scatter", "all_gather"], ["bfloat16"], ["sum", "avg"], 4 << 20, 64 << 20, 4, 20, None, 2, 8, 2
    )

    def test_variants_take_turns_in_going_first(self):
        programs = Programs(
            "collectives", dict.fromkeys(("reduce_scatter", "all_gather"), pathlib.Path("/c")), pathlib.Path("/l.so")
        )
        order = [(run.repeat, run.collective, run.variant) for run in make_runs(self.SWEEP, programs)]
        self.assertEqual(order[:2], [(0, "reduce_scatter", "native"), (0, "reduce_scatter", "sdp4bit")])
        self.assertEqual(order[4:6], [(1, "reduce_scatter", "sdp4bit"), (1, "reduce_scatter", "native")])
        self.assertEqual(len(order), 8)

    def test_nccl_tests_gathers_one_size_a_run(self):
        programs = Programs(
            "nccl-tests",
            {name: pathlib.Path(f"/{name}_perf") for name in ("reduce_scatter", "all_gather")},
            pathlib.Path("/l.so"),
        )
        gathers = [
            run.words
            for run in make_runs(self.SWEEP, programs)
            if run.collective == "all_gather" and run.variant == "native"
        ]
        self.assertEqual([words[words.index("-b") + 1] for words in gathers], 2 * ["4M", "16M", "64M"])
        self.assertTrue(all("-c" in words and words[words.index("-c") + 1] == "0" for words in gathers))

    def test_native_runs_never_have_the_library(self):
        kept = {"LD_PRELOAD": "/x/libasan.so:/y/libsdp4bit.so.0", "HOME": "/h"}
        native, ours = (
            environment_of(Run(variant, 0, "all_gather", [], variables), kept)
            for variant, variables in (("native", {}), ("sdp4bit", {"LD_PRELOAD": "/z/libsdp4bit.so"}))
        )
        self.assertEqual(native["LD_PRELOAD"], "/x/libasan.so")
        self.assertEqual(ours["LD_PRELOAD"], "/x/libasan.so:/z/libsdp4bit.so")
        self.assertNotIn(
            "LD_PRELOAD", environment_of(Run("native", 0, "all_gather", [], {}), {"LD_PRELOAD": "/y/libsdp4bit.so"})
        )


class Command(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.library = self.folder / "libsdp4bit.so"
        self.library.write_text("")

    def program(self, name, text):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def bench(self, *words, variables=None):
        return support.in_this_process("bench", "--library", str(self.library), *words, variables=variables)

    def refuse(self, *words, parts=(), code=2):
        result = self.bench(*words)
        self.assertEqual((result.returncode, result.stdout), (code, ""), result)
        lines = [line for line in result.stderr.splitlines() if not line.startswith("[")]  # progress
        self.assertEqual(len(lines), 1, result.stderr)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_printed_lines_are_a_script(self):
        program = self.program("collectives", "true")
        variables = {"SDP4BIT_COMMS": "spans-nodes,ranks>=8"}
        for launcher, start in (
            ("mpirun", "mpirun -np 16 --map-by ppr:8:node -x"),
            ("srun", "srun --nodes=2 --ntasks-per-node=8 env"),
            ("torchrun", "env 'SDP4BIT_COMMS=spans-nodes,ranks>=8' torchrun --nnodes=2 --nproc_per_node=8"),
        ):
            with self.subTest(launcher):
                result = self.bench(
                    "--program",
                    program,
                    "--print",
                    launcher,
                    "--repeats",
                    "1",
                    "--shared",
                    "/shared",
                    variables=variables,
                )
                self.assertEqual(result.returncode, 0, result.stderr)
                subprocess.run(["bash", "-n"], input=result.stdout, text=True, check=True)
                lines = [line for line in result.stdout.splitlines() if " | tee bench-" in line]
                self.assertEqual(len(lines), 4)
                self.assertTrue(lines[0].startswith(start), lines[0])
                self.assertEqual([f"LD_PRELOAD={self.library}" in line for line in lines], [False, True, False, True])
                self.assertTrue(all("'SDP4BIT_COMMS=spans-nodes,ranks>=8'" in line for line in lines), lines[0])
                self.assertEqual(len({line.split("--id-file ")[1].split()[0] for line in lines}), 4)
                self.assertIn("sdp4bit bench --read . --nodes 2 --gpus 8 -o bench.json", result.stdout)

    def test_more_words_reach_the_launcher(self):
        result = self.bench(
            "--program",
            self.program("collectives", "true"),
            "--print",
            "mpirun",
            "--launcher-arguments",
            "--hostfile 'my hosts'",
        )
        self.assertIn("ppr:8:node --hostfile 'my hosts' ", result.stdout)

    def test_outputs_of_printed_lines_become_a_result(self):
        (self.folder / "bench-native-0-reduce_scatter-0.txt").write_text(COLLECTIVES_LINE)
        (self.folder / "bench-sdp4bit-0-reduce_scatter-1.txt").write_text(
            WORKS + "\n" + COLLECTIVES_LINE.replace("100.0", "40.0")
        )
        output = self.folder / "result.json"
        result = self.bench("--read", str(self.folder), "-o", str(output))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("Measured on 2 nodes with 8 GPUs each.", result.stdout)
        self.assertIn("2.50 (2.50 to 2.50)", result.stdout)
        self.assertEqual(len(bench_results.read_results(str(output)).rows), 2)
        page = support.in_this_process("report", str(output), "-o", str(self.folder / "page.html"))
        self.assertIn("ReduceScatter of 4M bfloat16: 2.50 times as fast", page.stdout)
        (self.folder / "bench-sdp4bit-0-reduce_scatter-1.txt").write_text(COLLECTIVES_LINE)
        self.assertIn("did not say that it works", self.bench("--read", str(self.folder)).stderr)

    def test_who_has_bytes_was_emulated(self):
        for number, variant in enumerate(("native", "sdp4bit")):
            (self.folder / f"bench-{variant}-0-reduce_scatter-{number}.txt").write_text(WORKS + "\n" + EMULATED_LINE)
        self.assertIn("times are not", self.bench("--read", str(self.folder)).stdout)

    def test_sizes_that_stay_native_are_named(self):
        result = self.bench(
            "--program", self.program("collectives", "true"), "--print", "srun", variables={"SDP4BIT_MIN_BYTES": "8M"}
        )
        self.assertIn("below SDP4BIT_MIN_BYTES=8M stay native", result.stderr)

    def test_a_launcher_is_run_and_read(self):
        program = self.program("collectives", f"echo '{WORKS}'; echo '{COLLECTIVES_LINE}'")
        self.program("mpirun", f'echo "$@" >> {self.folder}/calls; exec {program}')
        result = self.bench(
            "--program",
            program,
            "--launch",
            "mpirun",
            "--repeats",
            "2",
            "--collectives",
            "reduce_scatter",
            "-o",
            str(self.folder / "bench.csv"),
            variables={"PATH": f"{self.folder}:{os.environ['PATH']}"},
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len((self.folder / "calls").read_text().splitlines()), 4)
        self.assertEqual(len((self.folder / "bench.csv").read_text().splitlines()), 5)
        self.assertIn("Measured on 2 nodes", result.stdout)

    def test_one_machine_is_no_network(self):
        program = self.program("collectives", f"echo '{WORKS}'; echo '{COLLECTIVES_LINE}'")
        words = ("--program", program, "--repeats", "1", "--collectives", "reduce_scatter", "-o")
        path = self.folder / "bench.json"
        result = self.bench(*words, str(path))
        label = "Measured on one machine that plays 2 nodes: no network between them."
        self.assertIn(label, result.stdout)
        self.assertEqual(json.loads(path.read_text())["label"], label)
        self.assertTrue(bench_results.read_results(str(path)).one_machine)
        page = support.in_this_process("report", str(path), "-o", str(self.folder / "page.html"))
        self.assertIn("no network between", page.stdout)
        self.assertIn(label, (self.folder / "page.html").read_text())
        self.assertIn(",one machine,", bench_results.to_csv(bench_results.read_results(str(path))))
        self.assertIn("Measured on 1 node with 8 GPUs each.", self.bench(*words, str(path), "--nodes", "1").stdout)

    def ranks_of(self, script):
        """A program that starts a rank of its own, which writes its number."""
        return self.program("collectives", f"({script}; exec sleep 99) & echo $! > {self.folder}/rank; wait")

    def assert_ended(self):
        rank = int((self.folder / "rank").read_text())
        for _ in range(200):
            try:
                os.kill(rank, 0)
            except ProcessLookupError:
                return
            if pathlib.Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return  # nobody here takes orphans in
            time.sleep(0.05)
        os.kill(rank, signal.SIGKILL)
        self.fail("the rank was left behind")

    def test_no_rank_outlives_the_timeout(self):
        for script in ("true", "trap '' TERM"):
            with self.subTest(script), mock.patch.object(process_group, "GRACE", 1.0):
                program = self.ranks_of(script)
                self.refuse("--program", program, "--timeout", "1", parts=("did not end", "SDP4BIT_LOG=info"), code=1)
                self.assert_ended()

    def test_no_rank_outlives_the_command(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                (self.folder / "rank").unlink(missing_ok=True)
                words = [sys.executable, support.TOOL, "bench", "--library", str(self.library), "--program", self.ranks_of("true")]
                with subprocess.Popen(words, env=support.clean_environment(), stderr=subprocess.DEVNULL,
                                      preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as process:
                    until = time.monotonic() + 20
                    while not (self.folder / "rank").exists() and time.monotonic() < until:
                        time.sleep(0.05)
                    time.sleep(0.2)
                    process.send_signal(number)
                    self.assertEqual(process.wait(30), 128 + number)
                self.assert_ended()

    def test_a_run_that_fails_says_its_last_line_and_itself(self):
        program = self.program("collectives", "echo 'NCCL error: unhandled system error' >&2; exit 3")
        self.refuse("--program", program, parts=("exit code 3", "unhandled system error", "Its line: "), code=1)
        program = self.program("collectives", "sleep 9")
        self.refuse("--program", program, "--timeout", "0.2", parts=("did not end within 0.2 s", "--timeout"), code=1)

    def test_the_installed_emulator_is_found(self):
        (self.folder / "share").mkdir()
        for libraries in ("lib", f"lib/{os.uname().machine}-linux-gnu"):
            folder = self.folder / libraries / "sdp4bit" / "emulator"
            folder.mkdir(parents=True)
            for name in ("collectives", "libsdp4bit.so"):
                (folder / name).write_text("")
            with mock.patch.object(bench_programs, "_package_root", lambda: self.folder):
                found = bench_programs.emulated_programs()
            self.assertEqual((found.paths["all_gather"], found.library), (folder / "collectives", folder / "libsdp4bit.so"))
            (folder / "collectives").unlink()
        with mock.patch.object(bench_programs, "_package_root", lambda: self.folder):
            self.refuse("--emulated", parts=("neither installed", "nor built"))

    def test_wrong_inputs_are_one_line(self):
        program = self.program("collectives", "true")
        for words, parts in (
            (("--nodes", "0"), ("--nodes",)),
            (("--begin", "4X"), ("4X", "no size")),
            (("--end", "1K"), ("do not shrink",)),
            (("--factor", "1"), ("--factor is 1",)),
            (("--types", "int8"), ("'int8' is not known", "bfloat16")),
            (("--print", "slurm"), ("slurm",)),
            (("--print", "srun", "--launch", "srun"), ("exclude each other",)),
            (("-o", "result.txt"), (".json or .csv",)),
            (("-o", "/nowhere/result.json"), ("no such folder",)),
            (("--program", "/nowhere/collectives"), ("/nowhere/collectives", "no such program")),
            (("--nccl-tests", "/nowhere"), ("no reduce_scatter_perf in /nowhere",)),
            (("--read", "/nowhere"), ("/nowhere", "no such folder")),
            (("--read", str(self.folder)), ("holds no output",)),
            (("--library", "/nowhere/libsdp4bit.so"), ("/nowhere/libsdp4bit.so",)),
        ):
            with self.subTest(words):
                self.refuse(
                    *(() if "--program" in words or "--nccl-tests" in words else ("--program", program)),
                    *words,
                    parts=parts,
                )
        self.program("reduce_scatter_perf", "true")
        self.program("all_gather_perf", "true")
        self.refuse("--nccl-tests", str(self.folder), parts=("needs a launcher", "--print"))


if __name__ == "__main__":
    unittest.main()

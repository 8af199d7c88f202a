"""The doctor's parts that no file on this machine can show: drivers, GPUs, plugins of sites, configuration files."""

import pathlib
import random
import sys
import tempfile
import unittest

import support

LIBRARY, COMPILER = support.take_arguments(2)
sys.path.insert(0, str(pathlib.Path(support.TOOL).resolve().parent))
from fixtures import NCCL, VISIBLE, Fixtures  # noqa: E402
from sdp4bit_tool.diagnosis.finding import Diagnosis  # noqa: E402
from sdp4bit_tool.diagnosis.loader import Loader, read_cache  # noqa: E402
from sdp4bit_tool.diagnosis.machine import Driver, check_driver, kernel_module_version, runs_on  # noqa: E402
from sdp4bit_tool.diagnosis.nccl_file import role_of  # noqa: E402
from sdp4bit_tool.diagnosis.variables import check_plugins, check_preloads, check_switches  # noqa: E402
from sdp4bit_tool.diagnosis.watched_run import Watched, read_line  # noqa: E402
from sdp4bit_tool.elf import ElfFile, NotElf  # noqa: E402
from sdp4bit_tool.library import Library  # noqa: E402
from sdp4bit_tool.preload import find_obstacle  # noqa: E402

FACTS = {"cuda_runtime": "13000", "oldest_driver": "580", "architectures": "80,90,100,120"}


def said(diagnosis, *levels):
    return " | ".join(f"{each.found} -> {each.todo}" for each in diagnosis.findings if each.level in levels)


class Machine(unittest.TestCase):
    def check(self, driver, module=None, facts=None):
        diagnosis = Diagnosis()
        check_driver(facts or FACTS, driver, module, diagnosis)
        return diagnosis

    def test_code_runs_on_later_minors_and_by_the_driver_on_all_later(self):
        for architectures, major, minor, wanted in (
                ("80", 8, 0, True), ("80", 8, 6, True), ("80", 7, 5, False), ("80-real", 9, 0, False), ("80", 9, 0, True),
                ("80-virtual", 12, 0, True), ("90a", 9, 0, True), ("90a", 10, 0, False), ("90-real", 9, 0, True),
                ("86-real", 8, 0, False), ("70-real,100-real", 10, 3, True), ("", 8, 0, False), ("native", 8, 0, False)):
            self.assertEqual(runs_on(architectures, major, minor), wanted, (architectures, major, minor))

    def test_a_driver_and_its_gpus(self):
        good = self.check(Driver(13000, 0, [("H200", 9, 0), ("H200", 9, 0)]), "580.65.06")
        self.assertEqual([each.level for each in good.findings], ["ok", "ok"])
        self.assertIn("2 x H200, compute capability 9.0", said(good, "ok"))

    def test_a_driver_that_is_too_old(self):
        text = said(self.check(Driver(12040, 0, []), "550.54.14"), "fail")
        for part in ("driver 550.54.14, for CUDA 12.4, is too old", "built for CUDA 13.0, which needs driver 580 or later",
                     "install driver 580 or later", "build the library with CUDA 12 (docs/install.md)"):
            self.assertIn(part, text)

    def test_a_library_of_cuda_12_runs_on_older_drivers(self):
        facts = {"cuda_runtime": "12090", "oldest_driver": "525", "architectures": "70,80,90"}
        good = self.check(Driver(12000, 0, [("V100", 7, 0)]), "525.60.13", facts)
        self.assertEqual([each.level for each in good.findings], ["ok", "ok"])
        self.assertIn("driver 525.60.13, takes CUDA 12.9, which needs driver 525 or later", said(good, "ok"))
        self.assertIn("needs driver 525 or later", said(self.check(Driver(11080, 0, []), "520.61.05", facts), "fail"))
        unknown = {"cuda_runtime": "14000", "oldest_driver": "0", "architectures": "100"}
        self.assertIn("needs a driver for CUDA 14 or later", said(self.check(Driver(13000, 0, []), "580.65.06", unknown), "fail"))

    def test_a_gpu_without_code(self):
        self.assertIn("CMAKE_CUDA_ARCHITECTURES=75", said(self.check(Driver(13000, 0, [("T4", 7, 5)])), "fail"))

    def test_no_driver_is_no_failure_but_half_of_one_is(self):
        self.assertEqual([each.level for each in self.check(None).findings], ["note"])
        self.assertIn("needs driver 580 or later", said(self.check(None), "note"))
        self.assertIn("--gpus all", said(self.check(None, "580.65.06"), "fail"))
        self.assertIn("cuInit says 100", said(self.check(Driver(13000, 100, [])), "warn"))

    def test_the_kernel_modules_version(self):
        with tempfile.NamedTemporaryFile("w", suffix="version") as file:
            file.write("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC version: gcc 12\n")
            file.flush()
            self.assertEqual(kernel_module_version(file.name), "580.65.06")
        self.assertIsNone(kernel_module_version("/no/such/file"))

    def test_what_the_library_says_it_was_built_for_is_in_its_file(self):
        facts = Library(pathlib.Path(LIBRARY)).build_facts()
        claimed = {int("".join(filter(str.isdigit, word))) for word in facts["architectures"].split(",")}
        with ElfFile(LIBRARY) as elf:
            data, found, at = elf.data, set(), 0
            magic = (0xBA55ED50).to_bytes(4, "little")
            while (at := data.find(magic, at)) >= 0:
                size, inner = int.from_bytes(data[at + 8 : at + 16], "little"), at + 16
                while inner < at + 16 + size:
                    head, payload = int.from_bytes(data[inner + 4 : inner + 8], "little"), int.from_bytes(data[inner + 8 : inner + 16], "little")
                    found.add(int.from_bytes(data[inner + 28 : inner + 32], "little"))
                    inner += head + payload
                at += 16 + size
        self.assertEqual(found, claimed)


class Variables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.home = pathlib.Path(self.folder.name)
        self.library = self.home / "lib" / "libsdp4bit.so"
        self.library.parent.mkdir()
        self.library.touch()
        self.loader = Loader("", {})

    def plugins(self, version=(2, 28, 9), loader=None, **environment):
        diagnosis = Diagnosis()
        taken = check_plugins({"HOME": str(self.home), **environment}, self.library, loader or self.loader, version, diagnosis)
        return taken, diagnosis

    def test_others_plugins_take_the_place(self):
        taken, diagnosis = self.plugins(NCCL_NET_PLUGIN="aws-ofi", NCCL_PROFILER_PLUGIN="inspector", NCCL_TUNER_PLUGIN="t")
        self.assertEqual(set(taken), {"net", "profiler"})
        self.assertEqual(said(diagnosis, "warn", "fail"), "")
        self.assertIn("NCCL_TUNER_PLUGIN=t does not touch sdp4bit", said(diagnosis, "note"))

    def test_our_plugin_that_is_not_found_is_explained(self):
        _, diagnosis = self.plugins(NCCL_NET_PLUGIN="sdp4bit")
        self.assertIn("no libnccl-net-sdp4bit.so is found", said(diagnosis, "warn"))
        (self.library.parent / "libnccl-net-sdp4bit.so").touch()
        self.assertIn(f"add {self.library.parent} to LD_LIBRARY_PATH", said(self.plugins(NCCL_NET_PLUGIN="sdp4bit")[1], "warn"))

    def test_lists_want_a_new_nccl_and_us_first(self):
        _, diagnosis = self.plugins(version=(2, 21, 5), NCCL_NET_PLUGIN="other,sdp4bit")
        self.assertIn("name sdp4bit first", said(diagnosis, "warn"))
        self.assertIn("NCCL 2.21 takes one plugin, not a list", said(diagnosis, "warn"))

    def test_a_sites_plugin_that_would_be_pushed_aside(self):
        fixtures = Fixtures(self.home, COMPILER)
        fixtures.build("site/libnccl-net.so", VISIBLE + NCCL, "-shared")
        loader = Loader(str(self.home / "site"), {})
        taken, diagnosis = self.plugins(loader=loader, NCCL_NET_PLUGIN="sdp4bit")
        self.assertIn("net", taken)
        self.assertIn("NCCL_NET_PLUGIN=sdp4bit,libnccl-net.so", said(diagnosis, "warn"))
        self.assertIn("preloading is not touched", said(self.plugins(loader=loader)[1], "note"))

    def test_nccls_own_files_of_variables_are_read(self):
        (self.home / ".nccl.conf").write_text("# ours\nNCCL_PROFILER_PLUGIN=other\n", encoding="utf-8")
        taken, _ = self.plugins()
        self.assertIn(".nccl.conf", taken["profiler"])

    def test_switches_that_make_everything_native(self):
        diagnosis = Diagnosis()
        check_switches({"TORCH_NCCL_USE_COMM_NONBLOCKING": "1", "SDP4BIT_ENABLE": "0", "LD_AUDIT": "a.so"}, ["SDP4BIT_SEED is wrong"], diagnosis)
        for part in ("non-blocking", "SDP4BIT_ENABLE=0", "LD_AUDIT", "SDP4BIT_SEED is wrong"):
            self.assertIn(part, said(diagnosis, "warn"))

    def test_preloads(self):
        fixtures = Fixtures(self.home, COMPILER)
        tracer = fixtures.build("libtracer.so", "int ncclAllGather(void) { return 0; }", "-shared")

        def check(*words, level="warn"):
            diagnosis = Diagnosis()
            check_preloads({"LD_PRELOAD": ":".join(words)}, pathlib.Path(LIBRARY), Loader("", {}), diagnosis)
            return said(diagnosis, level)

        self.assertIn("/gone.so", check("/gone.so"))
        self.assertIn("it must come behind sdp4bit", check(fixtures.nccl, LIBRARY))
        self.assertEqual(check(LIBRARY, fixtures.nccl), "")
        self.assertIn("it is bypassed", check(LIBRARY, tracer))
        self.assertEqual(check(tracer, LIBRARY), "")
        self.assertIn("has to pass them on", check(tracer, LIBRARY, level="note"))
        self.assertIn("holds the library already", check(LIBRARY, level="ok"))


class Reading(unittest.TestCase):
    def test_the_loaders_cache_of_this_machine(self):
        cache = read_cache()
        self.assertTrue(any(pathlib.Path(path).exists() for path in cache.get("libc.so.6", ())), list(cache)[:5])
        self.assertEqual(read_cache("/no/such/file"), {})
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"glibc-ld.so.cache1.1\xff\xff\xff\x7f cut off")
            file.flush()
            self.assertEqual(read_cache(file.name), {})

    def test_damaged_files_are_said_to_be_damaged_and_no_more(self):
        with tempfile.TemporaryDirectory() as folder:
            fixtures = Fixtures(pathlib.Path(folder), COMPILER)
            whole = pathlib.Path(fixtures.framework()).read_bytes()
            path = str(pathlib.Path(folder, "damaged.so"))
            for seed in range(400):
                draw = random.Random(seed)
                data = bytearray(whole[: draw.randrange(64, len(whole))] if draw.random() < 0.3 else whole)
                for _ in range(draw.choice((1, 3, 20))):
                    data[draw.randrange(min(draw.choice((64, 700, len(data))), len(data)))] = draw.choice((0, 255, draw.randrange(256)))
                pathlib.Path(path).write_bytes(data)
                with self.subTest(seed):
                    role_of(path, deep=True)
                    Loader("", {}).closure(path)
                    find_obstacle(path, pathlib.Path(LIBRARY))
                    try:
                        with ElfFile(path) as elf:
                            elf.needed_versions()
                    except NotElf:
                        pass

    def test_lines_of_the_loader_and_of_the_command(self):
        seen = Watched()
        for line in (b"      7:\tcalling init: /x/libnccl.so.2\n", b"      7:\tinitialize program: prog\n", b"hello\n",
                     b"      7:\tbinding file /x/lib a.so [0] to /x/libnccl.so.2 [0]: normal symbol `ncclAllGather'\n",
                     b"      7:\tbinding file a.so [0] to b.so [0]: weak symbol `ncclReduceScatter' [V_1]\n",
                     b"      7:\tbinding file a.so [0] to b.so [0]: normal symbol `ncclAllGatherV'\n",
                     b"ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded (wrong ELF class): ignored.\n"):
            read_line(line, seen)
        self.assertEqual(seen.loaded, {"/x/libnccl.so.2": {7}})
        self.assertEqual(seen.programs, {7: "prog"})
        self.assertEqual(seen.bindings, {("/x/lib a.so", "/x/libnccl.so.2", "ncclAllGather"), ("a.so", "b.so", "ncclReduceScatter")})
        self.assertEqual(list(seen.last_lines), ["hello"])
        self.assertEqual(len(seen.refusals), 1)


if __name__ == "__main__":
    unittest.main()

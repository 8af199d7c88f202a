"""`sdp4bit doctor` on files and on commands that it watches: which of them preloading reaches, and why not."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import support
from fixtures import HIDDEN, MAIN, NCCL, STAND_INS, USER, Fixtures, elf_header
from support import sdp4bit

LIBRARY, COMPILER = support.take_arguments(2)
FOLDER = tempfile.TemporaryDirectory()
FIXTURES = Fixtures(pathlib.Path(FOLDER.name), COMPILER)


def doctor(*words, **variables):
    """Exit code and the JSON answer."""
    result = sdp4bit("doctor", "--library", LIBRARY, "--json", *words, variables=variables)
    try:
        return result.returncode, json.loads(result.stdout)
    except ValueError:
        raise AssertionError(f"no JSON: {result}") from None


def texts(answer, *levels):
    return " | ".join(f"{each['found']} -> {each['todo']}" for each in answer["findings"] if each["level"] in levels)


class DoctorCase(unittest.TestCase):
    def assert_works(self, outcome, *parts):
        code, answer = outcome
        self.assertEqual((code, answer["works"], answer["ways"]["preload"]), (0, True, True), answer)
        for part in parts:
            self.assertIn(part, texts(answer, "ok", "note", "warn"))

    def assert_fails(self, outcome, *parts):
        code, answer = outcome
        self.assertEqual((code, answer["works"], answer["ways"]["preload"]), (1, False, False), answer)
        for part in parts:
            self.assertIn(part, texts(answer, "fail"))
        for each in answer["findings"]:
            if each["level"] == "fail":
                self.assertNotEqual(each["todo"], "", each)


class Files(DoctorCase):
    def test_a_library_linked_to_nccl_is_reached(self):
        self.assert_works(doctor(FIXTURES.framework()), "NCCL 2.28.9", "nccl/libnccl.so.2",
                          "calls ncclReduceScatter and ncclAllGather")

    def test_a_program_linked_to_nccl_is_reached(self):
        self.assert_works(doctor(FIXTURES.program()), "NCCL 2.28.9")

    def test_nccl_itself(self):
        self.assert_works(doctor(FIXTURES.nccl), "this is NCCL itself")

    def test_an_nccl_that_is_not_found(self):
        path = FIXTURES.lost()
        self.assert_fails(doctor(path), "needs libnccl.so.77, which is not found", "pip install nvidia-nccl")
        self.assert_works(doctor(path, LD_LIBRARY_PATH=str(FIXTURES.folder / "other")), "NCCL 2.28.9")

    def test_static_and_exported_is_reached(self):
        self.assert_works(doctor(FIXTURES.static("libexported.so", True)), "though NCCL is inside of it")

    def test_static_and_bound_at_link_time_is_not(self):
        self.assert_fails(doctor(FIXTURES.static("libbound.so", True, ["-Wl,-Bsymbolic"])), "-Bsymbolic")

    def test_static_and_hidden_is_not(self):
        path = FIXTURES.static("libhidden.so", False)
        self.assert_fails(doctor(path), "hidden symbols", "linked to libnccl.so.2")
        subprocess.run(["strip", path], check=True)
        self.assert_fails(doctor(path), "hidden symbols")

    def test_a_program_with_a_hidden_nccl_of_its_own(self):
        path = FIXTURES.build("alone", HIDDEN + NCCL + USER + MAIN, "-s")
        self.assert_fails(doctor(path), "hidden symbols")

    def test_a_program_that_opens_nccl_itself(self):
        self.assert_fails(doctor(FIXTURES.opener()), "dlopen and dlsym")

    def test_stand_ins_that_look_nccl_up_are_not_taken_for_nccl(self):
        path = FIXTURES.build("libxla.so", STAND_INS, "-shared", "-ldl")
        self.assert_fails(doctor(path), "dlopen and dlsym")
        subprocess.run(["strip", path], check=True)
        self.assert_fails(doctor(path), "dlopen and dlsym")

    def test_a_program_without_nccl(self):
        self.assert_fails(doctor(shutil.which("true")), "nothing to do with NCCL")

    def test_other_architectures(self):
        for name, bits, machine in (("i386", 32, 3), ("aarch64", 64, 183)):
            path = FIXTURES.folder / name
            path.write_bytes(elf_header(bits, machine))
            self.assert_fails(doctor(str(path)), f"is {bits}-bit {name}", "the loader would ignore it")

    def test_a_large_library_takes_no_longer_than_a_small_one(self):
        path = FIXTURES.framework("liblarge.so")

        def seconds():
            """Of the processor, for the machine may be busy."""
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assert_works(doctor(path))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        small = seconds()
        with open(path, "r+b") as file:
            file.truncate(3 << 30)  # sparse: nothing of it may be read
        self.assertLess(seconds() - small, 0.5)  # reading it takes 1 s and more on any machine
        os.unlink(path)

    def test_what_is_no_program_is_one_line_and_2(self):
        text, short, folder = (FIXTURES.folder / name for name in ("notes.txt", "short.so", "empty"))
        text.write_text("hello\n", encoding="utf-8")
        short.write_bytes(b"\x7fELF\x02\x01\x01")
        folder.mkdir()
        cases = ((str(text), "neither a program nor a library"), ("/no/such/file", "no such file"), ("no-such-program", "PATH"),
                 (str(short), "damaged"), (str(folder), "is a folder"), ("/proc/self/mem", "cannot be read"))
        for path, part in cases:
            result = sdp4bit("doctor", "--library", LIBRARY, path)
            self.assertEqual((result.returncode, result.stdout, len(result.stderr.splitlines())), (2, "", 1), result)
            self.assertIn(part, result.stderr)

    def test_a_library_that_ld_preload_cannot_hold(self):
        library = FIXTURES.folder / "a folder" / "libsdp4bit.so"
        library.parent.mkdir()
        shutil.copy(LIBRARY, library)
        for words in ((FIXTURES.program(),), ("--", "true")):
            result = sdp4bit("doctor", "--library", str(library), *words)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn("spaces or colons", result.stdout)
        self.assert_fails(doctor(FIXTURES.program(), LD_PRELOAD=str(library.rename(FIXTURES.folder / "libsdp4bit.so"))),
                          "another libsdp4bit.so")

    def test_wrong_usage_is_one_line_and_2(self):
        for words, part in ((("--",), "no command"), (("a", "--", "b"), "give one"), (("--seconds", "0", "--", "true"), "above 0"),
                            (("--", "no-such-program"), "PATH"), (("--jason",), "--jason"),
                            (("python3", "-c", "pass"), "doctor -- python3 -c pass"),
                            (("torchrun", "--nproc-per-node", "8", "train.py"), "doctor -- torchrun --nproc-per-node 8 train.py"),
                            (("--jason", "python3"), "unrecognized arguments: --jason"),
                            (("--seconds", "inf", "--", "true"), "'inf' is no number"),
                            (("--seconds", "nan", "--", "true"), "'nan' is no number"),
                            (("--", "/etc/passwd"), "/etc/passwd: it cannot be executed"),
                            (("--", "/no/such/program"), "/no/such/program: there is no such file")):
            result = sdp4bit("doctor", "--library", LIBRARY, *words)
            self.assertEqual((result.returncode, result.stdout, len(result.stderr.splitlines())), (2, "", 1), result)
            self.assertIn(part, result.stderr)


class Interpreters(DoctorCase):
    def environment(self, name, build):
        """A folder on Python's path that holds torch/lib/libtorch_cuda.so, made by `build`."""
        build(f"{name}/torch/lib/libtorch_cuda.so")
        return str(FIXTURES.folder / name)

    def test_pytorch_with_the_wheels_nccl(self):
        path = self.environment("wheels", lambda name: FIXTURES.build(
            name, USER, "-shared", f"-L{FIXTURES.folder / 'nccl'}", "-lnccl", "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib"))
        wheel = pathlib.Path(path, "nvidia", "nccl", "lib")
        wheel.mkdir(parents=True)
        shutil.copy(FIXTURES.nccl, wheel)
        self.assert_works(doctor(sys.executable, PYTHONPATH=path), "it has PyTorch", "nvidia/nccl/lib/libnccl.so.2")
        self.assert_works(doctor(PYTHONPATH=path, PATH=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"), "it has PyTorch")
        script = FIXTURES.folder / "torchrun"
        script.write_text(f"#!{sys.executable}\n", encoding="utf-8")
        self.assert_works(doctor(str(script), PYTHONPATH=path), "is a script for Python")

    def test_pytorch_with_a_hidden_nccl(self):
        path = self.environment("built", lambda name: FIXTURES.static(name, False))
        self.assert_fails(doctor(sys.executable, PYTHONPATH=path), "hidden symbols")

    def test_pytorch_without_cuda(self):
        folder = FIXTURES.folder / "cpu" / "torch" / "lib"
        folder.mkdir(parents=True)
        (folder / "libtorch_cpu.so").touch()
        code, answer = doctor(sys.executable, PYTHONPATH=str(FIXTURES.folder / "cpu"))
        self.assertEqual(code, 1)
        self.assertIn("built without CUDA", texts(answer, "note"))

    def test_a_shell_script_is_to_be_run(self):
        script = FIXTURES.folder / "start.sh"
        script.write_text("#!/bin/sh\ntrue\n", encoding="utf-8")
        self.assert_fails(doctor(str(script)), "cannot be seen from its file", "sdp4bit doctor -- ")


class Commands(DoctorCase):
    def test_a_linked_program_is_seen_to_lead_to_the_library(self):
        self.assert_works(doctor("--", FIXTURES.program()), "lead to the library", "NCCL 2.28.9", "in 1 process")

    def test_a_library_that_is_preloaded_by_another_name(self):
        link = FIXTURES.folder / "libsdp4bit.so.0"
        link.symlink_to(LIBRARY)
        self.assert_works(doctor("--", FIXTURES.program(), LD_PRELOAD=str(link)), "lead to the library", "holds the library already")

    def test_a_framework_loaded_locally_in_a_child_of_a_shell(self):
        command = f"{FIXTURES.loader()} {FIXTURES.framework()}; true"
        self.assert_works(doctor("--", "sh", "-c", command), "libframework.so lead to the library", "in 2 processes")

    def test_deepbind_is_seen_and_the_plugin_reaches_it(self):
        outcome = doctor("--", FIXTURES.loader(), FIXTURES.framework(), "deep")
        self.assertIn("RTLD_DEEPBIND", texts(outcome[1], "warn"))
        self.assert_fails(outcome, "no ReduceScatter or AllGather of anybody leads to the library")
        self.assertEqual((outcome[1]["ways"]["net_plugin"], outcome[1]["ways"]["profiler_plugin"]), (True, True))

    def test_dlopen_and_dlsym_are_seen(self):
        outcome = doctor("--", FIXTURES.opener(), FIXTURES.nccl)
        self.assertIn("was asked for ncclAllGather by name", texts(outcome[1], "warn"))
        self.assert_fails(outcome)
        self.assertEqual(outcome[1]["ways"]["net_plugin"], False)

    def test_a_hidden_nccl_is_found_among_what_was_loaded(self):
        self.assert_fails(doctor("--", FIXTURES.loader(), FIXTURES.static("libwatched.so", False)), "hidden symbols")

    def test_an_nccl_opened_by_python(self):
        self.assert_fails(doctor("--", sys.executable, "-c", f"import ctypes; ctypes.CDLL('{FIXTURES.nccl}')"), "loads")

    def test_a_command_without_nccl(self):
        self.assert_fails(doctor("--", "true"), "no process of the command loaded an NCCL")

    def test_what_drops_the_environment_is_not_even_run(self):
        for command in (("env", "-i", "true"), ("ssh", "nowhere", "true")):
            if shutil.which(command[0]):
                self.assert_fails(doctor("--", *command), "LD_PRELOAD" if command[0] == "env" else "does not reach")

    def test_a_command_that_fails_or_takes_too_long_is_said(self):
        code, answer = doctor("--", "sh", "-c", "echo no module named torch >&2; exit 3")
        self.assertEqual(code, 1)
        self.assertIn("ended with 3; it said: no module named torch", texts(answer, "warn"))
        started = time.monotonic()
        code, answer = doctor("--seconds", "1", "--", "sleep", "60")
        self.assertLess(time.monotonic() - started, 30)
        self.assertIn("was ended after 1 s", texts(answer, "warn"))


def tearDownModule():  # noqa: N802
    FOLDER.cleanup()


if __name__ == "__main__":
    unittest.main()

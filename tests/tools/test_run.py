"""`sdp4bit run`: what it sets and refuses, that the command runs as if alone, and the summary at the end."""

import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support
from support import sdp4bit

LIBRARY, PROGRAM, COMPILER, GPU_LIBRARY = support.take_arguments(4)
sys.path.insert(0, str(pathlib.Path(support.TOOL).resolve().parent))
from sdp4bit_tool.errors import UserError  # noqa: E402
from sdp4bit_tool.preload import compose_preload  # noqa: E402

CLUSTER = {"SANDBOX_DEVICES": "4"}
TAKEN = ("--min-bytes", "0", "--comms", "all", "--local-size", "2")


def run(*words, **keywords):
    return sdp4bit("run", "--library", LIBRARY, *words, **keywords)


class Refusals(unittest.TestCase):
    def assert_refused(self, result, *parts, code=2):
        self.assertEqual(result.returncode, code, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_an_unknown_option_names_the_nearest(self):
        self.assert_refused(run("--min-byte", "4M", "--", "true"), "--min-byte:", "the nearest is --min-bytes")
        self.assert_refused(run("--quite", "--", "true"), "the nearest is --quiet")

    def test_a_value_that_the_library_would_warn_about_is_refused(self):
        for value in ("4Q", "", " 4", "-1"):
            self.assert_refused(run(f"--min-bytes={value}", "--", "true"), "--min-bytes", f'"{value}"', "bytes, with K, M or G")

    def test_mistakes_in_the_environment_are_refused_too(self):
        self.assert_refused(run("--", "true", variables={"SDP4BIT_SEDE": "1"}), "SDP4BIT_SEDE", "SDP4BIT_SEED")
        self.assert_refused(run("--", "true", variables={"SDP4BIT_SEED": "x"}), "SDP4BIT_SEED", "a number")
        self.assertEqual(run("--seed", "3", "-q", "--", "true", variables={"SDP4BIT_SEED": "x"}).returncode, 0)

    def test_two_files_are_two(self):
        same = {"SDP4BIT_STATS": "/tmp/%p", "SDP4BIT_METRICS": "/tmp/%p"}
        refused = "SDP4BIT_STATS and SDP4BIT_METRICS both name /tmp/%p"
        self.assert_refused(run("--stats", "/tmp/%p", "--metrics", "/tmp/%p", "--", "true"), refused)
        self.assert_refused(run("--stats", "/tmp/%p", "--", "true", variables={"SDP4BIT_METRICS": "/tmp/%p"}), refused)
        self.assert_refused(run("--", "true", variables=same), refused)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run("--stats", f"{folder}/%p", "-q", "--", "true", variables=same).returncode, 0)

    def test_a_command_is_needed_and_must_be_there(self):
        self.assert_refused(run("--seed", "1"), "no command")
        self.assert_refused(run("--"), "no command")
        self.assert_refused(run("--", "no-such-program"), "no-such-program", "PATH", code=127)
        self.assert_refused(run("--", "/etc/passwd"), "cannot be executed", code=126)

    def test_an_option_without_its_value(self):
        self.assert_refused(run("--seed"), "--seed", "expected one argument")

    def test_a_folder_that_cannot_take_files(self):
        for name in ("stats", "metrics"):
            for path in ("/no/such/folder/%r.json", "/no/such/folder/%h/%r.json"):
                self.assert_refused(run(f"--{name}", path, "--", "true"), f"--{name} {path}", "no folder /no/such/folder")
                variables = {f"SDP4BIT_{name.upper()}": path}
                self.assert_refused(run("--", "true", variables=variables), "environment", "no folder /no/such/folder")
        given = run("--stats", f"{tempfile.gettempdir()}/%p.json", "-q", "--", "true",
                    variables={"SDP4BIT_STATS": "/no/such/folder/%r.json"})
        self.assertEqual(given.returncode, 0, given)

    def test_the_emulated_clusters_programs_need_its_library(self):
        self.assert_refused(sdp4bit("run", "--library", GPU_LIBRARY, "--", PROGRAM), "uses the emulated CUDA",
                            f"--library {os.path.dirname(LIBRARY)}/libsdp4bit.so", code=126)
        result = sdp4bit("doctor", "--library", GPU_LIBRARY, PROGRAM)
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("uses the emulated CUDA", result.stdout)
        self.assertEqual(sdp4bit("doctor", "--library", LIBRARY, PROGRAM).returncode, 0)

    def test_programs_that_cannot_be_preloaded(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "main.c"), pathlib.Path(folder, "static")
            source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
            subprocess.run([COMPILER, "-x", "c", "-static", str(source), "-o", str(program)], check=True)
            self.assert_refused(run("--", str(program)), "linked statically", code=126)
            script = pathlib.Path(folder, "script")
            script.write_text(f"#!{program}\n", encoding="utf-8")
            script.chmod(0o755)
            self.assert_refused(run("--", str(script)), "linked statically", code=126)
            privileged = shutil.copy(shutil.which("true"), pathlib.Path(folder, "privileged"))
            os.chmod(privileged, 0o4755)
            self.assert_refused(run("--", str(privileged)), "ignores LD_PRELOAD", code=126)


class Preload(unittest.TestCase):
    def test_what_is_there_stays_first(self):
        library = pathlib.Path(LIBRARY)
        self.assertEqual(compose_preload("", library), LIBRARY)
        self.assertEqual(compose_preload("libasan.so.8 /x/tracer.so", library, lambda path: False),
                         f"libasan.so.8:/x/tracer.so:{LIBRARY}")

    def test_an_nccl_comes_behind(self):
        self.assertEqual(compose_preload("a.so:libnccl.so.2:b.so", pathlib.Path(LIBRARY), lambda path: "nccl" in path),
                         f"a.so:{LIBRARY}:libnccl.so.2:b.so")

    def test_the_library_is_there_once(self):
        self.assertEqual(compose_preload(f"a.so:{LIBRARY}", pathlib.Path(LIBRARY)), f"a.so:{LIBRARY}")
        with self.assertRaisesRegex(UserError, "another libsdp4bit.so"):
            compose_preload("/elsewhere/libsdp4bit.so.0", pathlib.Path(LIBRARY))

    def test_a_path_that_it_cannot_hold(self):
        with self.assertRaisesRegex(UserError, "spaces or colons"):
            compose_preload("", pathlib.Path("/a folder/libsdp4bit.so"))


class AsIfAlone(unittest.TestCase):
    def test_variables_arrive_and_are_said(self):
        result = run("--min-bytes", "4M", "--", "sh", "-c", 'echo "$LD_PRELOAD|$SDP4BIT_MIN_BYTES|$SDP4BIT_SEED"',
                     variables={"SDP4BIT_SEED": "5"})
        self.assertEqual(result.stdout, f"{LIBRARY}|4M|5\n")
        self.assertIn("SDP4BIT_MIN_BYTES=4M  (default auto)", result.stderr)
        self.assertIn("SDP4BIT_SEED=5  (from the environment; default 1)", result.stderr)

    def test_a_command_begins_at_the_first_word_too(self):
        result = run("-q", "--seed=2", "sh", "-c", "echo $SDP4BIT_SEED --help")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "2 --help\n", ""))

    def test_exit_codes_are_the_commands(self):
        self.assertEqual(run("-q", "--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(run("-q", "--", "sh", "-c", "kill -9 $$").returncode, 128 + 9)
        self.assertEqual(run("-q", "--", "sh", "-c", "kill -TERM $$").returncode, 128 + 15)

    def test_the_command_has_no_signal_blocked_or_ignored(self):
        result = run("-q", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
        blocked, ignored = (int(line.split()[1], 16) for line in result.stdout.splitlines())
        glibcs = 0b11 << 31  # the two signals of threads' own, which posix_spawn resets this way
        self.assertEqual((blocked, ignored & ~glibcs), (0, 0), result.stdout)

    def start(self, script, **keywords):
        return subprocess.Popen([sys.executable, support.TOOL, "run", "--library", LIBRARY, "-q", "--", "bash", "-c", script],
                                env=support.clean_environment(), stdout=subprocess.PIPE, text=True, **keywords)

    def test_signals_are_passed_on_and_the_end_is_waited_for(self):
        for name in ("INT", "TERM", "HUP", "USR1"):
            script = f"trap 'sleep 0.2; echo got {name}; exit 5' {name}; echo ready; while :; do sleep 0.05; done"
            with self.start(script) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(getattr(signal, f"SIG{name}"))
                self.assertEqual(process.stdout.read(), f"got {name}\n")
                self.assertEqual(process.wait(20), 5)

    def test_what_nohup_ignores_stays_ignored(self):
        with self.start("kill -HUP $PPID; kill -HUP $$; sleep 0.3; echo alive",
                        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
            self.assertEqual(process.stdout.read(), "alive\n")
            self.assertEqual(process.wait(20), 0)

    def test_the_terminals_interrupt_comes_once(self):
        script = ("n=0; trap 'n=$((n+1))' INT; echo ready; for i in $(seq 400); do [ $n = 0 ] || break; sleep 0.05; done; "
                  "sleep 0.5; echo count=$n")  # a second one would come in the half second
        child, terminal = pty.fork()
        if child == 0:
            os.execve(sys.executable, [sys.executable, support.TOOL, "run", "--library", LIBRARY, "-q", "--", "bash", "-c", script],
                      support.clean_environment())
        shown, interrupted, until = b"", False, time.monotonic() + 60
        while time.monotonic() < until:
            try:
                shown += os.read(terminal, 1024)
            except OSError:  # how a terminal ends
                break
            if b"ready" in shown and not interrupted:
                interrupted = True
                os.write(terminal, b"\x03")
        os.waitpid(child, 0)
        os.close(terminal)
        self.assertIn(b"count=1", shown)

    def test_launched_for_each_rank_only_the_first_of_a_node_speaks(self):
        self.assertEqual(run("--", "true", variables={"LOCAL_RANK": "1"}).stderr, "")
        self.assertNotEqual(run("--", "true", variables={"LOCAL_RANK": "0"}).stderr, "")

    def test_a_command_that_loses_the_environment_is_named(self):
        self.assertIn("warning: env: -i drops LD_PRELOAD", run("--", "env", "-i", "true").stderr)


class Summary(unittest.TestCase):
    def test_it_tells_bytes_calls_reasons_and_weights(self):
        result = run(*TAKEN, "--", PROGRAM, "preloaded", variables=CLUSTER)
        self.assertEqual(result.returncode, 0, result)
        for part in ("1 process on ", "60 of 104 calls compressed", "between nodes: sent ", " instead of ", "times fewer",
                     "reduce_scatter: 24 calls, 12 compressed; native: 12 before the ranks had agreed",
                     "all_gather: 80 calls", "4 sent as differences; 0 jumps, 0 refreshes"):
            self.assertIn(part, result.stderr)
        self.assertNotIn("doctor", result.stderr)
        self.assertNotIn("warning:", result.stderr)

    def test_all_processes_of_the_machine_are_added_up(self):
        result = run(*TAKEN, "--", "sh", "-c", f"{PROGRAM} preloaded & {PROGRAM} preloaded; wait", variables=CLUSTER)
        self.assertIn("2 processes on ", result.stderr)
        self.assertIn("120 of 208 calls compressed", result.stderr)

    def test_nothing_is_left_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            run(*TAKEN, "--", PROGRAM, "preloaded", variables={**CLUSTER, "TMPDIR": folder})
            self.assertEqual(os.listdir(folder), [])

    def test_where_nobody_came_it_says_what_to_do(self):
        result = run("--", "true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("no process of this command reached the library", result.stderr)
        self.assertIn("sdp4bit doctor -- true", result.stderr)
        failed = run("--", "sh", "-c", "exit 3").stderr
        self.assertIn("sdp4bit: the command ended with 3 before any process of it reached the library here", failed)
        self.assertIn("`sdp4bit doctor -- sh -c 'exit 3'` tells why", failed)

    def test_where_nothing_was_written_its_folder_is_named_first(self):
        with tempfile.TemporaryDirectory() as folder:
            for code, then in ((0, "no process of this command reached"), (3, "the command ended with 3 before")):
                said = run("--stats", f"{folder}/%h/%r.json", "--", "sh", "-c", f"exit {code}").stderr
                self.assertIn(f"no statistics were written to {folder}/%h/%r.json: its folder may be missing, or {then}", said)

    def test_given_files_stay_old_ones_are_left_out_and_bad_ones_named(self):
        with tempfile.TemporaryDirectory() as folder:
            old = pathlib.Path(folder, "99-0.json")
            old.write_text("{}", encoding="utf-8")
            os.utime(old, (1, 1))
            bad = pathlib.Path(folder, "98-0.json")
            result = run(*TAKEN, "--stats", f"{folder}/%p-%r.json", "--", "sh", "-c",
                         f"{PROGRAM} preloaded; echo '{{' > {bad}", variables=CLUSTER)
            self.assertIn("1 process on", result.stderr)
            self.assertIn(f"warning: {bad}: it ends in the middle", result.stderr)
            self.assertNotIn(str(old), result.stderr)
            self.assertIn(f"sdp4bit report {folder}", result.stderr)
            self.assertEqual(len(os.listdir(folder)), 3)

    def test_warnings_of_the_log_are_counted(self):
        result = run("--log", "none", *TAKEN, "--weight-direct", "4", "--", PROGRAM, "preloaded", variables=CLUSTER)
        self.assertRegex(result.stderr, r"warning: the library logged 0 errors and [1-9]\d* warnings?")


if __name__ == "__main__":
    unittest.main()

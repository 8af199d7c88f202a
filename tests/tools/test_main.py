"""The command's frame: the table of commands, and one useful line for each mistake."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import support
from support import sdp4bit

(LIBRARY,) = support.take_arguments(1)


class Main(unittest.TestCase):
    def assert_one_line(self, result, *parts):
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_help_names_every_command(self):
        result = sdp4bit("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("options", result.stdout)

    def test_the_version_is_the_librarys(self):
        result = sdp4bit("--version", variables={"LD_PRELOAD": LIBRARY})
        self.assertEqual(result.returncode, 0, result)
        self.assertRegex(result.stdout, rf"^sdp4bit \d+\.\d+\.\d+ \({LIBRARY}\)\n$")

    def test_an_unknown_command_names_the_nearest(self):
        self.assert_one_line(sdp4bit("optoins"), "optoins", "did you mean 'options'?")

    def test_an_unknown_option_is_one_line(self):
        self.assert_one_line(sdp4bit("options", "--libary", "x"), "--libary", "sdp4bit options --help")

    def test_a_library_that_is_not_there_is_one_line(self):
        self.assert_one_line(sdp4bit("options", "--library", "/nowhere/libsdp4bit.so"), "/nowhere/libsdp4bit.so",
                             "no such file")

    def test_a_library_that_is_none_is_one_line(self):
        self.assert_one_line(sdp4bit("options", "--library", __file__), __file__, "cannot be loaded")

    def test_another_library_is_refused(self):
        libc = next(path for path in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6")
                    if os.path.exists(path))
        self.assert_one_line(sdp4bit("options", "--library", libc), "sdp4bitVersion")

    def test_output_that_cannot_be_written_is_one_line(self):
        for words in (("options", "--library", LIBRARY), ("--help",)):
            with self.subTest(words), open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([sys.executable, support.TOOL, *words], env=support.clean_environment(), stdout=full,
                                        stderr=subprocess.PIPE, text=True, timeout=60, check=False)
                self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result)
                self.assertIn("cannot be written: No space left", result.stderr)

    def test_the_installed_shape_is_found_from_a_link(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            source = pathlib.Path(support.TOOL).resolve().parent
            (root / "bin").mkdir()
            (root / "lib").mkdir()
            shutil.copy(source / "sdp4bit", root / "bin" / "sdp4bit")
            shutil.copytree(source / "sdp4bit_tool", root / "share" / "sdp4bit" / "sdp4bit_tool")
            shutil.copy(LIBRARY, root / "lib" / "libsdp4bit.so")
            (root / "link").symlink_to(root / "bin" / "sdp4bit")
            result = subprocess.run([sys.executable, str(root / "link"), "options"], env=support.clean_environment(),
                                    capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("SDP4BIT_ENABLE", result.stdout)
            shutil.rmtree(root / "share")
            result = subprocess.run([sys.executable, str(root / "link"), "options"], env=support.clean_environment(),
                                    capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(result.returncode, 1, result)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()

"""`sdp4bit doctor` on NVIDIA's releases of NCCL, from PyPI. Skipped without it, or failed with NETWORK_TESTS_REQUIRED=1."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

LIBRARY, COMPILER, DOWNLOADS, FETCHER = support.take_arguments(4)
sys.path.insert(0, FETCHER)
import fetch_wheels  # noqa: E402
from fixtures import MAIN, USER  # noqa: E402


def doctor(*words):
    return support.sdp4bit("doctor", "--library", LIBRARY, *words)


class Releases(unittest.TestCase):
    def test_each_is_known_by_its_version_and_takes_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "program.c")
            source.write_text(USER + MAIN, encoding="utf-8")
            for version, place in RELEASES.items():
                with self.subTest(version):
                    result = doctor(str(place / "libnccl.so.2"))
                    self.assertEqual(result.returncode, 0, result)
                    self.assertIn(f"libnccl.so.2 is NCCL {version}\n", result.stdout)
                    program = str(pathlib.Path(folder, f"program-{version}"))
                    subprocess.run([COMPILER, "-x", "c", "-w", str(source), "-x", "none", str(place / "libnccl.so.2"), "-o", program,
                                    f"-Wl,-rpath,{place}"], check=True)
                    for words in ((program,), ("--", program)):
                        result = doctor(*words)
                        self.assertEqual(result.returncode, 0, result)
                        self.assertIn(f"{place}/libnccl.so.2 is NCCL {version}\n", result.stdout)
                        self.assertIn("preloading will work", result.stdout)


try:
    NEWEST = fetch_wheels.newest("nvidia-nccl-cu13")
    pathlib.Path(DOWNLOADS).mkdir(parents=True, exist_ok=True)
    RELEASES = {each: fetch_wheels.fetch(DOWNLOADS, "nvidia-nccl-cu12", each) for each in ("2.18.3", "2.21.5", "2.27.7")}
    RELEASES[NEWEST] = fetch_wheels.fetch(DOWNLOADS, "nvidia-nccl-cu13", NEWEST)
except fetch_wheels.NotReachable as reason:
    print(f"skipped: PyPI did not give the wheels of NCCL, so the doctor was tried with no release of it: {reason}")
    sys.exit(1 if os.environ.get("NETWORK_TESTS_REQUIRED", "0") != "0" else 77)

if __name__ == "__main__":
    unittest.main()

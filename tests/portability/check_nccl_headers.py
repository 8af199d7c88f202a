"""The plugin compiles, without a warning, with nccl.h of the releases of NCCL on PyPI, and refuses one that is too old.

  check_nccl_headers.py SOURCE_DIR CACHE_DIR COMPILER CUDA_INCLUDE_DIR sample|minors|all|FOLDER

sample: the oldest, which lacks most (the build itself reads a recent one); minors: that and the last of each minor version;
all: all, for CUDA 12 and 13; a folder with an nccl.h, which is absolute: only that one, without PyPI.
Without PyPI skipped (77), or with NETWORK_TESTS_REQUIRED=1 failed (1).
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Tuple

import nccl_headers
from nccl_headers import number

OLDEST = (2, 18)
SAMPLE = [(nccl_headers.PACKAGES[0], "2.18.1")]
TOO_OLD = "2.17.1"
# In one translation unit their names would meet others': each is one of its own.
ALONE = ("late_binding.cpp", "profiler.cpp")
Release = Tuple[str, str]


def choose(which: str) -> List[Release]:
    """Package and version."""

    def known(package: str) -> List[str]:
        return [version for version in nccl_headers.releases(package) if number(version)[:2] >= OLDEST]

    if which == "sample":
        return SAMPLE
    if which == "all":
        return [(package, version) for package in nccl_headers.PACKAGES for version in known(package)]
    package = nccl_headers.PACKAGES[0]
    last = {number(version)[:2]: version for version in known(package)}
    return [(package, version) for version in [SAMPLE[0][1], *last.values()]]


def units(source: pathlib.Path) -> Dict[str, str]:
    """Translation units: what names anything of NCCL in one, which costs seconds, and the few that cannot be in it."""
    files = [
        path
        for path in sorted((source / "plugin").rglob("*.cpp"))
        if re.search(r"\bnccl[A-Z]\w+|\bNCCL_[A-Z]", path.read_text(encoding="utf-8"))
    ]
    together = [path for path in files if path.name not in ALONE]
    texts = {"plugin": "".join(f'#include "{path}"\n' for path in together)}
    texts.update({path.name: f'#include "{path}"\n' for path in files if path.name in ALONE})
    return texts


class Compiler:
    """Reads translation units with one nccl.h or another."""

    def __init__(self, source: pathlib.Path, compiler: str, cuda: str) -> None:
        self._command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Werror",
                         '-DSDP4BIT_VERSION="test"', '-DSDP4BIT_ARCHITECTURES="test"', "-I", str(source),
                         "-I", str(source / "include")]
        self._cuda = cuda
        self._units = units(source)

    def errors(self, headers: pathlib.Path) -> str:
        """What the compiler says; nothing where all is well."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in self._units.items():
                file = pathlib.Path(folder, f"{name}.cpp")
                file.write_text(text, encoding="utf-8")
                command = [*self._command, "-isystem", str(headers), "-isystem", self._cuda, str(file)]
                result = subprocess.run(command, capture_output=True, text=True, check=False)
                if result.returncode != 0:
                    return result.stderr.strip() or f"{name}: {command[0]} ended with {result.returncode}"
        return ""


def main() -> int:
    source, cache = (pathlib.Path(word) for word in sys.argv[1:3])
    compiler = Compiler(source, *sys.argv[3:5])
    failures = 0
    if os.path.isabs(sys.argv[5]):
        errors = compiler.errors(pathlib.Path(sys.argv[5]))
        print(errors or f"{sys.argv[3]} reads it without a warning")
        return 1 if errors else 0
    try:
        for package, version in choose(sys.argv[5]):
            headers = nccl_headers.fetch(cache, package, version)
            start = time.monotonic()
            errors = compiler.errors(headers)
            verdict = "FAILED  " if errors else "ok      "
            print(f"{verdict}{package} {version} ({time.monotonic() - start:.1f} s) {errors[:3000]}", flush=True)
            if "redefinition of" in errors:
                print("        (files of plugin/ that use NCCL are compiled as one here: give the names in their anonymous "
                      "namespaces other names, or put the file into ALONE)")
            failures += bool(errors)
        if sys.argv[5] != "sample":
            errors = compiler.errors(nccl_headers.fetch(cache, nccl_headers.PACKAGES[0], TOO_OLD))
            refused = "sdp4bit needs the nccl.h of NCCL 2.18 or later" in errors
            print(f"{'ok      ' if refused else 'FAILED  '}{TOO_OLD} is refused {'' if refused else errors[:600]}")
            failures += not refused
    except nccl_headers.NotReachable as reason:
        print(f"SKIPPED: PyPI did not give the wheels of NCCL, so no other nccl.h was tried: {reason}")
        return 1 if os.environ.get("NETWORK_TESTS_REQUIRED", "0") != "0" else 77
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

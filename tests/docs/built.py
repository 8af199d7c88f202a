"""What the tests of the pages need of a build: where it is, its tests, and its library's own judgement of options."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import pages

# In a process of its own: the library reads its environment once.
_OPTIONS_IN_FORCE = """
import ctypes, sys
say = ctypes.CDLL(sys.argv[1]).sdp4bitOptionsInForce
say.restype, say.argtypes = ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]
text = ctypes.create_string_buffer(say(None, 0) + 1)
say(text, len(text))
sys.stdout.write(text.value.decode())
"""


def folder() -> pathlib.Path:
    """The build folder, as CTest names it."""
    return pathlib.Path(os.environ["DOCS_BUILD"])


@functools.lru_cache(maxsize=None)
def ctest_names() -> frozenset[str]:
    """Names of all tests of the build."""
    shown = subprocess.run(
        ["ctest", "--test-dir", str(folder()), "--show-only=json-v1"], capture_output=True, text=True, check=True
    )
    return frozenset(test["name"] for test in json.loads(shown.stdout)["tests"])


@functools.lru_cache(maxsize=None)
def cmake_options() -> frozenset[str]:
    """SDP4BIT_* names that CMake knows: they are not the library's variables."""
    lists = [pages.ROOT / "CMakeLists.txt", *(pages.ROOT / "cmake").glob("*.cmake")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in lists)
    return frozenset(re.findall(r"\b(SDP4BIT_\w+)", text))


@functools.lru_cache(maxsize=None)
def variables() -> frozenset[str]:
    """The library's variables, as its own table has them."""
    return frozenset(line.partition("=")[0] for line in _ask_library({})[0].splitlines())


@functools.lru_cache(maxsize=None)
def complaint(name: str, value: str) -> str:
    """What the library says about NAME=value in its environment; "" if it takes it."""
    return _ask_library({name: value})[1]


def _ask_library(environment: dict[str, str]) -> tuple[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SDP4BIT_")}
    command = [sys.executable, "-c", _OPTIONS_IN_FORCE, os.environ["DOCS_LIBRARY"]]
    told = subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True, check=True)
    return told.stdout, told.stderr.strip()

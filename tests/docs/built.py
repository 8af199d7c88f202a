"""What the tests of the pages need of a build: where it is, its tests, and its library's own judgement of options."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import pathlib
import re
import subprocess

import pages


def folder() -> pathlib.Path:
    """The build folder, as CTest names it."""
    return pathlib.Path(os.environ["DOCS_BUILD"])


@functools.lru_cache(maxsize=None)
def ctest_tests() -> dict[str, tuple[str, ...]]:
    """The labels of each test of the build."""
    shown = subprocess.run(
        ["ctest", "--test-dir", str(folder()), "--show-only=json-v1"], capture_output=True, text=True, check=True
    )
    labels = {}
    for test in json.loads(shown.stdout)["tests"]:
        of_test = [each["value"] for each in test.get("properties", []) if each["name"] == "LABELS"]
        labels[test["name"]] = tuple(label for value in of_test for label in value)
    return labels


def ctest_names() -> frozenset[str]:
    """Names of all tests of the build."""
    return frozenset(ctest_tests())


@functools.lru_cache(maxsize=None)
def cmake_options() -> frozenset[str]:
    """SDP4BIT_* names that CMake knows: they are not the library's variables."""
    lists = [pages.ROOT / "CMakeLists.txt", *(pages.ROOT / "cmake").glob("*.cmake")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in lists)
    return frozenset(re.findall(r"\b(SDP4BIT_\w+)", text))


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library for GPUs, in this process; it needs none for these questions."""
    loaded = ctypes.CDLL(os.environ["DOCS_LIBRARY"])
    text = loaded.sdp4bitOptionsInForce
    text.restype, text.argtypes = ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]
    loaded.sdp4bitCheckOption.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    return loaded


@functools.lru_cache(maxsize=None)
def variables() -> frozenset[str]:
    """The library's variables, as its own table has them."""
    say = library().sdp4bitOptionsInForce
    text = ctypes.create_string_buffer(say(None, 0) + 1)
    say(text, len(text))
    return frozenset(line.partition("=")[0] for line in text.value.decode().splitlines())


def accepts(name: str, value: str) -> bool:
    """Whether the library takes NAME=value."""
    return library().sdp4bitCheckOption(name.encode(), value.encode()) == 1

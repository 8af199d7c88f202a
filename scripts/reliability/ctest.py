"""Asks CTest which tests report figures, and runs one of them."""
from __future__ import annotations

import dataclasses
import json
import subprocess
from typing import Any

import page
from results import Refusal

KINDS = ("faults", "integrity", "fuzz", "load", "agreement")


@dataclasses.dataclass(frozen=True)
class Test:
    name: str
    labels: frozenset[str]
    prepares: bool  # another test, which has CTest run it

    @property
    def kind(self) -> str:
        return next((kind for kind in KINDS if kind in self.labels), "")


def _properties(test: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["value"] for each in test.get("properties", [])}


def tests_of(build: str) -> list[Test]:
    done = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refusal(f"{build} has no tests: {done.stderr.strip().splitlines()[-1:] or 'ctest failed'}; build it first")
    found = []
    for test in json.loads(done.stdout)["tests"]:
        properties = _properties(test)
        found.append(Test(test["name"], frozenset(properties.get("LABELS", [])), "FIXTURES_SETUP" in properties))
    return [test for test in found if test.kind]


def selected(tests: list[Test], quick: bool, only: list[str]) -> list[Test]:
    """The long tests, or the quick ones. `only`: kinds of these, or any test by its name."""
    own = [test for test in tests if not test.prepares]
    wanted = [test for test in own if ("slow" in test.labels) != quick]
    if not only:
        return wanted
    known = {test.kind for test in own} | {test.name for test in own}
    for word in only:
        if word not in known:
            raise Refusal(
                f"--only {word} is neither a kind ({', '.join(KINDS)}) nor one of the tests: "
                f"{', '.join(sorted(test.name for test in own))}"
            )
    return [test for test in own if test.name in only or (test.kind in only and test in wanted)]


def figures_of(output: str) -> list[dict[str, Any]]:
    """The lines of JSON that tests print; ctest puts `number: ` before each line."""
    found = []
    for line in output.splitlines():
        text = line.partition(": ")[2] if line[:1].isdigit() else line
        if not text.startswith('{"'):
            continue
        try:
            figures = json.loads(text)
        except ValueError:
            continue
        if isinstance(figures, dict) and page.kind_of(figures):
            found.append(figures)
    return found


def run(build: str, test: Test) -> tuple[str, bool]:
    """What it printed, and whether it passed: a test that was skipped has shown nothing."""
    command = ["ctest", "--test-dir", build, "-R", f"^{test.name}$", "--verbose", "--no-tests=error"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    skipped = "did not run" in done.stdout or "***Skipped" in done.stdout
    return done.stdout, done.returncode == 0 and not skipped

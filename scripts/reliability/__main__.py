"""Runs the tests that report figures, keeps what they printed, and writes docs/reliability.md from it."""
from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
from typing import Any

import page

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "reliability" / "results.json"
PAGE = ROOT / "docs" / "reliability.md"
LABELS = "^(fuzz|faults|agreement|integrity|load)$"


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


def run_tests(build: str, quick: bool) -> tuple[list[dict[str, Any]], bool]:
    """What they printed, and whether all passed. Their output is shown as it comes."""
    selection = ["-LE", "slow"] if quick else ["-R", "_long$|_everywhere$"]
    command = ["ctest", "--test-dir", build, "-L", LABELS, *selection, "--verbose", "--no-tests=error"]
    print("running:", *command, flush=True)
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as tests:
        assert tests.stdout
        for line in tests.stdout:
            lines.append(line)
            if line.lstrip().startswith(("Start", "{")) or " Test " in line or "tests passed" in line:
                print(line, end="", flush=True)
    failed = tests.returncode != 0
    if failed:
        print("".join(lines[-200:]))
    return figures_of("".join(lines)), not failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/reliability.sh", description=__doc__)
    parser.add_argument("--build", help="the build folder")
    mode = parser.add_mutually_exclusive_group(required=True)
    for name in ("long", "quick", "page"):
        mode.add_argument(f"--{name}", action="store_true")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(page.markdown(json.loads(RESULTS.read_text())))
        return 0
    results, passed = run_tests(arguments.build, arguments.quick)
    if arguments.quick:
        print(page.markdown(results))
        return 0 if passed and results else 1
    if passed and results:  # a page says what held, so figures of a run that failed are none
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        PAGE.write_text(page.markdown(results))
    return 0 if passed and results else 1


if __name__ == "__main__":
    sys.exit(main())

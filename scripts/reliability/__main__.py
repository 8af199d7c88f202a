"""Runs the tests that report figures, keeps what each printed, and writes docs/reliability.md from it."""
from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time

import ctest
import page
import results as kept

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "reliability" / "results.json"
FINDINGS = ROOT / "docs" / "reliability" / "findings.json"
PAGE = ROOT / "docs" / "reliability.md"


def write_page(results: kept.Results) -> None:
    PAGE.write_text(page.markdown(results, json.loads(FINDINGS.read_text(encoding="utf-8"))), encoding="utf-8")


def measure(build: str, quick: bool, only: list[str]) -> bool:
    """Keeps a test's figures as soon as it has passed, so that a run that is cut short loses only the rest."""
    commit = "" if quick else kept.commit_of(ROOT)
    tests = ctest.tests_of(build)
    wanted = ctest.selected(tests, quick, only)
    results = {} if quick else kept.load(RESULTS)
    names = {test.name for test in tests}
    for gone in [name for name in results if name not in names]:
        del results[gone]
    all_passed = True
    for number, test in enumerate(wanted, 1):
        print(f"{number} of {len(wanted)}: {test.name}", end=" ", flush=True)
        start = time.monotonic()
        output, passed = ctest.run(build, test)
        seconds = time.monotonic() - start
        print(f"{'passed' if passed else 'FAILED'} in {seconds:.0f} s", flush=True)
        all_passed = all_passed and passed
        if not passed:
            print("\n".join(output.splitlines()[-200:]))
            continue
        results[test.name] = kept.entry(commit, seconds, ctest.figures_of(output))
        results = kept.without_replaced_samples(results)
        if test.name not in results:
            print(f"{test.name} is a sample: the figures of its long test stay", flush=True)
        if not quick:
            kept.save(RESULTS, results)
            write_page(results)
    if quick:
        print(page.markdown(results, []))
    return all_passed and bool(wanted)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/reliability.sh", description=__doc__)
    parser.add_argument("--build", help="the build folder")
    parser.add_argument("--only", action="append", default=[], help="a kind or a test")
    mode = parser.add_mutually_exclusive_group(required=True)
    for name in ("long", "quick", "page"):
        mode.add_argument(f"--{name}", action="store_true")
    arguments = parser.parse_args()
    try:
        if arguments.page:
            write_page(kept.load(RESULTS))
            return 0
        return 0 if measure(arguments.build, arguments.quick, arguments.only) else 1
    except kept.Refusal as refusal:
        print(f"cannot go on: {refusal}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

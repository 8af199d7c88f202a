"""Runs the steps one after the other, each within what is left of the time, and writes one JSON file."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict

import machine
from steps import Step, StepFailed, all_steps


def run_step(step: Step, seconds: float) -> Dict[str, Any]:
    """The step's entry in the result."""
    started = time.monotonic()
    entry: Dict[str, Any] = {"step": step.name, "command": " ".join(step.command), "passed": False}
    environment = {**os.environ, **step.environment}
    try:
        if seconds < 1:
            raise StepFailed("no time was left")
        done = subprocess.run(
            step.command, capture_output=True, text=True, check=False, timeout=seconds, env=environment
        )
        if done.returncode != 0:
            lines = (done.stdout + "\n" + done.stderr).strip().splitlines()
            raise StepFailed(f"exit status {done.returncode}: {' | '.join(lines[-6:])}")
        entry["result"] = step.judge(done.stdout, done.stderr)
        entry["passed"] = True
    except subprocess.TimeoutExpired:
        entry["failure"] = f"not done after {seconds:.0f} s"
    except (OSError, StepFailed, ValueError, KeyError) as error:
        entry["failure"] = str(error)
    entry["seconds"] = round(time.monotonic() - started, 1)
    return entry


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="the build folder")
    parser.add_argument("--out", type=Path, required=True, help="where the result goes")
    parser.add_argument("--seconds", type=float, default=290, help="for all steps together")
    parser.add_argument("--emulated", action="store_true", help="on the emulated GPU and NCCL")
    arguments = parser.parse_args()
    started = time.monotonic()
    gpus = machine.gpus(arguments.emulated)
    result: Dict[str, Any] = {
        "emulated": arguments.emulated,
        "gpus": gpus,
        "versions": machine.versions(arguments.build),
        "steps": [],
    }
    for step in all_steps(arguments.build, arguments.emulated, len(gpus)):
        print(f"{step.name} ...", flush=True)
        entry = run_step(step, arguments.seconds - (time.monotonic() - started))
        print(f"  {'passed' if entry['passed'] else 'FAILED: ' + entry['failure']} ({entry['seconds']} s)", flush=True)
        result["steps"].append(entry)
    failures = [f"{entry['step']}: {entry['failure']}" for entry in result["steps"] if not entry["passed"]]
    result["failures"] = failures
    try:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        print(f"scripts/gpu: the result cannot be written: {error}", file=sys.stderr)
        return 1
    print(f"{len(result['steps']) - len(failures)} passed, {len(failures)} failed; the result: {arguments.out}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

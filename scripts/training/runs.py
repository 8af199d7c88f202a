"""Makes one run of a scheme and keeps its result as one JSON file, so that a study can be continued."""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from library_facts import read_facts
from problem import Problem
from schemes import COMMON, Scheme

SOURCE = Path(__file__).resolve().parent.parent.parent
EXAMPLE = SOURCE / "examples" / "05_train_gpt"
NODES, RANKS_PER_NODE = 2, 2

Result = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where the build is, where results go, and how long a run may take."""

    build: Path
    out: Path
    timeout: float

    @property
    def library(self) -> Path:
        return self.build / "sandbox" / "lib" / "libsdp4bit.so"

    def file(self, scheme: Scheme, seed: int, steps: int) -> Path:
        return self.out / "runs" / f"{scheme.name}_seed{seed}_steps{steps}.json"

    def log(self, scheme: Scheme, seed: int, steps: int) -> Path:
        return self.file(scheme, seed, steps).with_suffix(".log")


def arguments_of(scheme: Scheme, seed: int, steps: int, evaluate_every: int) -> list[str]:
    return ["--seed", str(seed), "--steps", str(steps), "--evaluate-every", str(evaluate_every), *scheme.arguments]


def variables_of(scheme: Scheme) -> dict[str, str]:
    return {**COMMON, **scheme.variables} if scheme.preloaded else {}


def fingerprint(place: Place, scheme: Scheme, arguments: list[str]) -> str:
    """Of everything that makes a run what it is: a result with another one is made anew."""
    seen = hashlib.sha256()
    files = sorted(EXAMPLE.glob("*.py"))
    files += [place.build / "sandbox" / "lib" / name for name in ("libnccl.so.2", "libcudart.so.13")]
    if scheme.preloaded:
        files.append(place.library)
    for file in files:
        seen.update(file.read_bytes())
    seen.update(json.dumps([variables_of(scheme), arguments, NODES, RANKS_PER_NODE], sort_keys=True).encode())
    return seen.hexdigest()[:16]


def finished(place: Place, scheme: Scheme, seed: int, steps: int, evaluate_every: int) -> Optional[Result]:
    """A result that is there already, if it is of the same program, library and settings."""
    try:
        result: Result = json.loads(place.file(scheme, seed, steps).read_text())
    except (OSError, ValueError):
        return None
    wanted = fingerprint(place, scheme, arguments_of(scheme, seed, steps, evaluate_every))
    return result if result.get("fingerprint") == wanted else None


def make(place: Place, scheme: Scheme, seed: int, steps: int, evaluate_every: int) -> Result:
    """Trains; the result is written whole or not at all."""
    arguments = arguments_of(scheme, seed, steps, evaluate_every)
    file, log = place.file(scheme, seed, steps), place.log(scheme, seed, steps)
    file.parent.mkdir(parents=True, exist_ok=True)
    # Before the run: a file that changes while it goes on must not be taken for the one that was used.
    made_by = fingerprint(place, scheme, arguments)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        # Variables of the caller's own would make schemes other than they say.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SDP4BIT_", "SANDBOX_"))}
        environment.pop("LD_PRELOAD", None)
        environment.update(variables_of(scheme))
        if scheme.preloaded:
            environment.update(LD_PRELOAD=str(place.library), SDP4BIT_LOG="info", SDP4BIT_STATS=f"{scratch}/stats%r.json")
        program = [sys.executable, str(EXAMPLE / "ranks.py"), "--build", str(place.build)]
        program += ["--nodes", str(NODES), "--ranks-per-node", str(RANKS_PER_NODE)]
        started = time.monotonic()
        with log.open("wb") as said:
            code = _run([*program, "--", *arguments, "--out", str(scratch)], environment, said, place.timeout)
        if code != 0:
            raise Problem(_failure(scheme, seed, code, place.timeout, log))
        ranks = [json.loads((scratch / f"rank{rank}.json").read_text()) for rank in range(NODES * RANKS_PER_NODE)]
        facts = read_facts([scratch / f"stats{rank['rank']}.json" for rank in ranks]) if scheme.preloaded else None
    result = _combine(ranks)
    result.update(
        scheme=scheme.name, seed=seed, steps=steps, variables=variables_of(scheme), library=facts,
        seconds=round(time.monotonic() - started, 1), fingerprint=made_by,
    )  # fmt: skip
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(draft, file)
    return result


_going_on: set[int] = set()
"""Leaders of the process groups of runs that have not ended."""


def _run(program: list[str], environment: dict[str, str], said: Any, timeout: float) -> Optional[int]:
    """The exit code, None after a time-out; no rank stays behind, however this ends."""
    process = subprocess.Popen(program, env=environment, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
    _going_on.add(process.pid)
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _going_on.discard(process.pid)


def stop_all() -> None:
    """Ends the runs that other threads wait for."""
    for leader in list(_going_on):
        os.killpg(leader, signal.SIGKILL)


def _failure(scheme: Scheme, seed: int, code: Optional[int], timeout: float, log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if "train.py" in line or "error" in line), lines[-1] if lines else "nothing")
    how = f"took more than {timeout:.0f} s (--timeout)" if code is None else f"ended with code {code}"
    return f"{scheme.name} with seed {seed} {how}; it said: {last} (all of it: {log})"


def _combine(ranks: list[Result]) -> Result:
    """One curve, for losses are sums over ranks; the sum of their bytes; where their weights were not the same."""
    first = ranks[0]
    by_step = zip(*(rank["weights"] for rank in ranks))
    traffic = None
    if all(rank["traffic"] for rank in ranks):
        traffic = {link: sum(rank["traffic"][link] for rank in ranks) for link in ("in_node", "between_nodes")}
    return {
        "curve": first["curve"],
        "unequal_after_steps": [step for step, hashes in enumerate(by_step) if len(set(hashes)) > 1],
        "weights": [rank["weights"][-1] for rank in ranks],
        "traffic": traffic,
        "settings": {name: value for name, value in first["settings"].items() if name not in ("seed", "rotate_data")},
        "versions": first["versions"],
        "cpu_seconds": round(sum(rank["cpu_seconds"] for rank in ranks), 1),
    }


def forget(place: Place) -> None:
    shutil.rmtree(place.out / "runs", ignore_errors=True)

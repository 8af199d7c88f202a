"""The steps: what is run, and what must hold of its output."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List

# A quantizing library's results differ from exact ones by this much at most; NCCL's own sums in bf16 by far less.
LARGEST_ERROR = 0.25
CALLS = ("-b", "4M", "-d", "bfloat16", "-g", "2", "--nodes", "2", "-w", "20", "-n", "10", "--format", "json")


class StepFailed(Exception):
    """What does not hold, in one line."""


@dataclass
class Step:
    name: str
    command: List[str]
    judge: Callable[[str, str], Any]  # of stdout and stderr: what goes into the result; raises StepFailed
    environment: Dict[str, str] = field(default_factory=dict)


def tests_passed(output: str, _: str) -> Any:
    """Of Catch2's last line."""
    found = re.search(r"All tests passed \((\d+) assertions? in (\d+) test cases?\)", output)
    if not found:
        raise StepFailed(next((line for line in reversed(output.splitlines()) if line.strip()), "it printed nothing"))
    return {"assertions": int(found[1]), "cases": int(found[2])}


def kernel_times(output: str, _: str) -> Any:
    measured = json.loads(output)
    if not measured["rows"]:
        raise StepFailed("no rows")
    return measured


def _rows(output: str) -> List[dict]:
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if not rows:
        raise StepFailed("no call was measured")
    return rows


def native_calls(output: str, _: str) -> Any:
    rows = _rows(output)
    for row in rows:
        if row["relative_error"] is None or row["relative_error"] > 0.01:
            raise StepFailed(f"{row['collective']} without the library: relative error {row['relative_error']}")
    return rows


def compressed_calls(output: str, errors: str) -> Any:
    rows = _rows(output)
    for row in rows:
        if row["relative_error"] is None or not row["relative_error"] < LARGEST_ERROR:
            raise StepFailed(f"{row['collective']} with the library: relative error {row['relative_error']}")
        if row["collective"] == "all_gather" and row["ranks_agree"] is not True:
            raise StepFailed("after an AllGather ranks hold different weights")
    if ": works (" not in errors:
        raise StepFailed("the library never said that it works")
    if not any(row["relative_error"] > 0 and row["collective"] == "reduce_scatter" for row in rows):
        raise StepFailed("no gradient was compressed")
    return rows


def all_steps(build: Path, emulated: bool, gpu_count: int) -> List[Step]:
    programs = build / "sandbox/bin" if emulated else build / "bin"
    library = build / ("sandbox/lib" if emulated else "lib") / "libsdp4bit.so"
    if emulated:
        tests = [str(build / "tests/kernels/kernels_gradient"), "[sample]"]
        rows = ["--json", "--count", "64K"]
    else:
        tests = [str(build / "tests/gpu/gpu_kernels")]
        rows = ["--json"]
    # Four ranks are two nodes of two; where there are fewer GPUs they share the first.
    shared = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "CUDA_VISIBLE_DEVICES": "0"}
    few = not emulated and gpu_count < 4
    ranks = shared if few else {}
    loaded = os.pathsep.join(filter(None, (str(library), os.environ.get("LD_PRELOAD", ""))))
    preloaded = {**ranks, "LD_PRELOAD": loaded, "SDP4BIT_LOG": "info", "SDP4BIT_MIN_BYTES": "64K"}
    collectives = [str(programs / "collectives"), *CALLS]
    return [
        Step("kernels equal the reference", tests, tests_passed),
        Step("kernels", [str(programs / "kernels"), *rows], kernel_times),
        Step("collectives of NCCL", collectives, native_calls, ranks),
        Step("collectives with the library", collectives, compressed_calls, preloaded),
    ]

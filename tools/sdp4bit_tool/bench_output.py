"""Reads what the measuring programs print: `collectives` (JSON, one object a line) and nccl-tests (its table)."""

from __future__ import annotations

import json
import re
from typing import List, Optional

from .bench_results import COLLECTIVES, Row

ENGAGED = re.compile(r"sdp4bit info .*: works \(version ([^,]*),")
_NCCL_TEST = re.compile(r"(reduce_scatter|all_gather)_perf")
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
# size count type redop root, then twice: time algbw busbw #wrong; out of place, then in place.
_TABLE_ROW = re.compile(
    rf"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+)\s+({_NUMBER})\s+({_NUMBER})\s+({_NUMBER})\s+(?:\d+|N/A)\s+"
    rf"({_NUMBER})\s+({_NUMBER})\s+({_NUMBER})\s+(?:\d+|N/A)\s*$"
)
# mpirun --tag-output, torchrun --tee and srun -l write the rank in front of a line.
_TAG = re.compile(r"^(?:\[\d+,\d+\]<\w+>:\s*|\[\w+\]:|\s*\d+:\s)")


def engaged_version(text: str) -> Optional[str]:
    """The library's version, where its first line says that it works."""
    found = ENGAGED.search(text)
    return found[1] if found else None


def _of_collectives(line: str, variant: str, repeat: int) -> Optional[Row]:
    try:
        data = json.loads(line)
    except json.JSONDecodeError:
        return None
    if not isinstance(data, dict) or data.get("collective") not in COLLECTIVES or "time_us" not in data:
        return None
    return Row(
        data["collective"],
        data["type"],
        data["redop"],
        int(data["size"]),
        variant,
        repeat,
        float(data["time_us"]),
        float(data["algbw_gbps"]),
        float(data["busbw_gbps"]),
        data.get("bytes_in_node"),
        data.get("bytes_between_nodes"),
        data.get("relative_error"),
    )


def _of_nccl_tests(line: str, collective: str, variant: str, repeat: int) -> Optional[Row]:
    match = _TABLE_ROW.match(line)
    if not match or int(match[1]) == 0:
        return None
    # Frameworks reduce out of place, and gather in place.
    time, algbw, busbw = (float(match[i]) for i in ((6, 7, 8) if collective == "reduce_scatter" else (9, 10, 11)))
    return Row(collective, match[3], match[4], int(match[1]), variant, repeat, time, algbw, busbw)


def parse_output(text: str, variant: str, repeat: int, collective: str = "") -> List[Row]:
    """Its measurements. `collective`: of a table of nccl-tests that does not say it."""
    rows: List[Row] = []
    for line in text.splitlines():
        line = _TAG.sub("", line)
        named = _NCCL_TEST.search(line)
        if named and not _TABLE_ROW.match(line):
            collective = collective or named[1]
        row = (
            _of_collectives(line.strip(), variant, repeat)
            if line.lstrip().startswith("{")
            else _of_nccl_tests(line, collective, variant, repeat) if collective else None
        )
        if row:
            rows.append(row)
    return rows

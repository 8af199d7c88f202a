"""Writes the tables of docs/performance.md, between their marks; the text around them is written by hand."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "tests/kernels/sass"))
sys.path.insert(2, str(Path(__file__).resolve().parents[1]))

from bounds import BOUNDS  # noqa: E402
from page import replace_between, table  # noqa: E402
from sass.cubin import ROOT, ToolError  # noqa: E402
from sass_counts import ARCHITECTURES, count_rows  # noqa: E402

PAGE = ROOT / "docs/performance.md"
NONE = "–"  # an architecture or row that was not counted
GPUS = (("A100", 80), ("H100", 90), ("H200", 90), ("B200", 100))


def emulated_rows(program: Path) -> Dict[str, dict]:
    """What the emulated machine counted, by row."""
    done = subprocess.run([str(program), "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolError(f"{program.name} failed: {done.stderr.strip()}")
    return {row["row"]: row for row in json.loads(done.stdout)["rows"]}


def counts_of_files(paths: List[Path]) -> Dict[int, Dict[str, dict]]:
    """By architecture and row."""
    found = {}
    for path in paths:
        for name, costs in json.loads(path.read_text(encoding="utf-8")).items():
            found.setdefault(int(name[len("sm_") :]), {}).update({cost["row"]: cost for cost in costs})
    return found


def kernel_table(counted: Dict[str, dict], sass: Dict[int, Dict[str, dict]]) -> str:
    rows = []
    for name, row in counted.items():
        costs = [sass.get(each, {}).get(name) for each in ARCHITECTURES]
        cells = [f"{cost['per_element']:.1f}" if cost else NONE for cost in costs]
        cost = sass.get(90, {}).get(name)
        entry = [f"{cost['entry_per_element']:.1f}", str(cost["registers"])] if cost else [NONE, NONE]
        rows.append(
            [name, *cells, *entry, f"{row['ptx_per_element']:.1f}"]
            + [f"{row['bytes_per_element']:.2f}", f"{row['least_bytes_per_element']:.2f}"]
            + [f"{row['sectors_per_request']:.1f}"]
        )
    return table(
        ["kernel", "sm_80", "sm_90", "sm_100", "+ entry", "registers", "PTX", "bytes moved", "fewest", "sectors"],
        rows,
    )


def pipe_table(sass: Dict[int, Dict[str, dict]]) -> str:
    pipes = ("alu", "fma", "conversion", "memory", "control", "uniform")
    rows = [[name] + [f"{cost['pipes'].get(pipe, 0):.1f}" for pipe in pipes] for name, cost in sass[90].items()]
    return table(["kernel, sm_90", *pipes], rows)


def margin_table(counted: Dict[str, dict], sass: Dict[int, Dict[str, dict]]) -> str:
    rows = []
    for name, row in counted.items():
        cells = []
        for gpu, architecture in GPUS:
            budget = row[f"budget_{gpu}"]
            cost = sass.get(architecture, {}).get(name)
            fits = f"{budget / cost['per_element']:.1f}x" if cost else NONE
            cells.append(f"{budget:.1f} ({fits})")
        rows.append([name, f"{row['least_bytes_per_element']:.2f}", *cells])
    return table(["kernel", "bytes", *(gpu for gpu, _ in GPUS)], rows)


def goal_table(sass: Dict[int, Dict[str, dict]]) -> str:
    rows = []
    for bound in BOUNDS:
        if bound.goal is not None and bound.row in sass[90]:
            reached = sass[90][bound.row]["per_element"]
            missed = "reached" if reached <= bound.goal else f"missed by {100 * (reached / bound.goal - 1):.0f} %"
            rows.append([bound.row, f"{bound.goal:g}", f"{reached:.1f}", missed])
    return table(["kernel, sm_90", "goal", "counted", ""], rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="the emulated machine's program, build/dev/sandbox/bin/kernels")
    parser.add_argument("--counts", type=Path, action="append", default=[], metavar="FILE", help="what sass_counts.py --json "
                        "said of architectures, 9.0 among them, instead of counting now")
    arguments = parser.parse_args()
    try:
        counted = emulated_rows(arguments.program)
        sass = counts_of_files(arguments.counts)
        for architecture in () if sass else ARCHITECTURES:
            with tempfile.TemporaryDirectory(prefix="sass-") as folder:
                costs = count_rows(arguments.program, architecture, [], Path(folder), sys.stderr.isatty())
            sass[architecture] = {cost.row: vars(cost) for cost in costs}
        text = PAGE.read_text(encoding="utf-8")
        for mark, content in (
            ("kernels", kernel_table(counted, sass)),
            ("pipes", pipe_table(sass)),
            ("goals", goal_table(sass)),
            ("margins", margin_table(counted, sass)),
        ):
            text = replace_between(text, mark, content)
        PAGE.write_text(text, encoding="utf-8")
    except KeyError as error:
        print(f"performance_page: a file of --counts has no row {error}", file=sys.stderr)
        return 1
    except (ToolError, OSError, ValueError) as error:
        print(f"performance_page: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

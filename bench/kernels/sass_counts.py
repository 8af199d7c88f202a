"""Counts what the kernels execute in a GPU's machine code: lane instructions an element, by row of `kernels`.

How: the program `kernels` of the emulated machine records each row's launch with its memory (--record). This tool
compiles the kernels for an architecture, disassembles them, and executes warps of a thread block in the middle of the
launch, every lane, instruction by instruction. What they stored must equal, byte for byte, what the
emulated machine stored; so the path that was counted is the path that was taken. Counted is a warp in the middle of
the block, on whole tiles of aligned data: what nearly all warps of a large call execute.

"per element" are instructions within the loop over tiles, each counting once for each of its 32 lanes, active or not.
"entry" is what a thread block executes once, spread over the elements of one tile.

Limits: latencies, dual use of a pipe, and memory are not modelled; an instruction that the interpreter does not know
ends the count of that row with an error that names it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Dict, List, Set

sys.path.insert(0, str(Path(__file__).resolve().parent))

from sass import cubin, launch, listing  # noqa: E402
from sass.cost import Cost, Mismatch, measure  # noqa: E402
from sass.launch import AccessError  # noqa: E402
from sass.operands import Unsupported  # noqa: E402

ARCHITECTURES = (80, 90, 100)


class NotCounted(Exception):
    """A row whose machine code has an instruction that the tool does not execute."""


def kernels_of(sources: Set[str], architecture: int, folder: Path) -> Dict[str, listing.Kernel]:
    nvcc, nvdisasm = cubin.find_tool("nvcc"), cubin.find_tool("nvdisasm")
    if nvcc is None or nvdisasm is None:
        raise cubin.ToolError("nvcc and nvdisasm are needed: scripts/test.sh gets them")
    found: Dict[str, listing.Kernel] = {}
    for source in sorted(sources):
        compiled = cubin.compile_source(nvcc, source, architecture, folder)
        for kernel in cubin.disassemble(nvdisasm, compiled).values():
            found[listing.stable_name(kernel.name)] = kernel
    return found


def record_launches(program: Path, filters: List[str], folder: Path) -> List[Path]:
    """One launch of each row whose name contains a filter, with its memory."""
    command = [str(program), "--count", "64K", "--record", str(folder), *filters]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise cubin.ToolError(f"{program.name} failed: {done.stderr.strip()}")
    return sorted(folder.glob("*.launch"), key=lambda path: int(path.stem))


def count_launch(path: Path, kernels: Dict[str, listing.Kernel], architecture: int) -> Cost:
    head = launch.read_head(path)
    name = listing.stable_name(head["kernel"])
    if name not in kernels:
        raise cubin.ToolError(f"{head['row']}: the compiled sources have no kernel {name}")
    try:
        return measure(path, kernels[name], architecture)
    except Unsupported as error:
        raise NotCounted(f"sm_{architecture}, {head['row']}: {error}") from error
    except (AccessError, Mismatch) as error:
        raise cubin.ToolError(f"sm_{architecture}, {head['row']}: {error}") from error


def count_rows(program: Path, architecture: int, filters: List[str], folder: Path, show: bool) -> List[Cost]:
    """Records the rows' launches and counts each; says which have instructions that the tool does not execute."""
    files = record_launches(program, filters, folder / "launches")
    heads = [launch.read_head(path) for path in files]
    kernels = kernels_of({listing.source_of(head["kernel"]) for head in heads}, architecture, folder)
    costs: List[Cost] = []
    missing: List[str] = []
    for number, (path, head) in enumerate(zip(files, heads)):
        if show:
            progress = f"sm_{architecture} {number + 1}/{len(files)} {head['row']}"
            print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)
        try:
            costs.append(count_launch(path, kernels, architecture))
        except NotCounted as error:
            missing.append(str(error))
    if show:
        print("\r\033[K", end="", file=sys.stderr)
    for text in missing:
        print(f"not counted: {text}", file=sys.stderr)
    return costs


def table(architecture: int, costs: List[Cost]) -> str:
    lines = [
        f"sm_{architecture}",
        f"{'row':<68}{'per element':>12}{'entry':>7}{'registers':>10}{'16-byte':>8}  by pipe",
    ]
    for cost in costs:
        pipes = ", ".join(f"{pipe} {count:.2f}" for pipe, count in cost.pipes.items())
        spills = "" if not (cost.local_accesses or cost.stack_bytes) else f"  LOCAL MEMORY ({cost.local_accesses})"
        lines.append(
            f"{cost.row:<68}{cost.per_element:>12.2f}{cost.entry_per_element:>7.2f}{cost.registers:>10}"
            f"{cost.wide_share:>8.1%}  {pipes}{spills}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the emulated machine's program, build/dev/sandbox/bin/kernels")
    parser.add_argument("filters", nargs="*", help="parts of rows' names; none: all rows")
    parser.add_argument("--arch", type=int, action="append", choices=ARCHITECTURES, help="80, 90, 100; none: all")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_intermixed_args()
    result = {}
    try:
        for architecture in arguments.arch or ARCHITECTURES:
            with tempfile.TemporaryDirectory(prefix="sass-") as folder:
                show = sys.stderr.isatty()
                costs = count_rows(arguments.program, architecture, arguments.filters, Path(folder), show)
            result[f"sm_{architecture}"] = [asdict(cost) for cost in costs]
            if not arguments.json:
                print(table(architecture, costs), flush=True)
    except (cubin.ToolError, OSError, ValueError) as error:
        print(f"sass_counts: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

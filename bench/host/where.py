#!/usr/bin/env python3
"""Says in which functions the instructions lie that host_cost counted."""

import argparse
import collections
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Tuple

Frame = Tuple[str, str]  # function, place


def read_profile(path: Path, kind: str) -> Dict[str, int]:
    """Runs by address."""
    runs: Dict[str, int] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fields = line.split()
        if len(fields) != 3 or not fields[2].isdigit():
            raise ValueError(f"{path}, line {number}: not KIND ADDRESS RUNS: {line[:60]}")
        if fields[0] == kind:
            runs[fields[1]] = int(fields[2])
    if not runs:
        raise ValueError(f"{path} holds no calls of the kind {kind}")
    return runs


def frames_of(library: Path, addresses: List[str]) -> List[List[Frame]]:
    """For each address the inlined functions it is in, innermost first, and the one that has them all."""
    lines = subprocess.run(
        ["addr2line", "-e", str(library), "-aipfC", *[f"0x{address}" for address in addresses]],
        check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout.splitlines()
    chains: List[List[Frame]] = []
    for line in lines:
        inlined = line.startswith(" (inlined by) ")
        text = line[len(" (inlined by) "):] if inlined else line.split(": ", 1)[1]
        function, _, place = text.rpartition(" at ")
        frame = (shortened(function or "?"), "/".join(place.split(" ")[0].split("/")[-2:]))
        if inlined:
            chains[-1].append(frame)
        else:
            chains.append([frame])
    return chains


def shortened(function: str) -> str:
    """Without arguments and template arguments."""
    name, depth = "", 0
    for character in function.replace("(anonymous namespace)", "{}").replace("operator()", "operator"):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif depth == 0:
            name += character
    return name.replace("sdp4bit::", "").strip()


def show(title: str, counts: "collections.Counter[str]", rows: int) -> None:
    total = sum(counts.values())
    print(title)
    for name, count in counts.most_common(rows):
        print(f"{count:8d} {100 * count / total:5.1f} %  {name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path, help="libsdp4bit.so that was measured, with debug information")
    parser.add_argument("profile", type=Path, help="what host_cost wrote")
    parser.add_argument("--kind", default="compressed", choices=["compressed", "passed-through"])
    parser.add_argument("--rows", type=int, default=40)
    options = parser.parse_args()
    try:
        runs = read_profile(options.profile, options.kind)
        chains = frames_of(options.library, list(runs))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"where.py: {error}", file=sys.stderr)
        return 1
    functions: "collections.Counter[str]" = collections.Counter()
    places: "collections.Counter[str]" = collections.Counter()
    below: "collections.Counter[str]" = collections.Counter()
    for count, chain in zip(runs.values(), chains):
        functions[chain[-1][0]] += count
        places[f"{chain[0][1]}  {chain[0][0]}"] += count
        for name in {name for name, _ in chain}:
            below[name] += count
    print(f"{sum(runs.values())} instructions, {options.kind}")
    show("By function, with what is inlined into it:", functions, options.rows)
    show("By line:", places, options.rows)
    print("By function, inlined or not; what they inline counts for each:")
    for name, count in below.most_common(options.rows):
        print(f"{count:8d} {100 * count / sum(runs.values()):5.1f} %  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

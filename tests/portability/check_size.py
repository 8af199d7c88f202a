"""What the library's code for GPUs takes, by architecture, and whether that is within the budget.

  check_size.py LIBRARY

Budgets are for each architecture, so that they hold for any list of them: the stored (compressed or not) bytes of its PTX and
of its machine code. The whole, with host code and without a debugger's sections, is what docs/install.md shows.
"""

from __future__ import annotations

import pathlib
import struct
import subprocess
import sys
from typing import Dict, Iterator, Tuple

KIB = 1024
# About a quarter above the largest that was measured, so that a kernel in all types and codecs, some 100 KiB, fits in:
#   zstd   PTX 1550 (preset dev, nvcc 13.0 as it is), machine code 690 (preset release, which asks nvcc for size)
#   LZ4    PTX 3355, machine code 1721 (nvcc 12.4, compute capability 7.0)
#   plain  PTX 11321, machine code 5911 (the same build before it was compressed)
PTX_BUDGET = {"zstd": 1950 * KIB, "LZ4": 4200 * KIB, "plain": 14150 * KIB}
SASS_BUDGET = {"zstd": 860 * KIB, "LZ4": 2150 * KIB, "plain": 7400 * KIB}
HOST_BUDGET = 2050 * KIB  # 1626 with CUDA 12
_PTX = 1
_LZ4, _ZSTD = 0x2000, 0x8000
_CONTAINER = 0xBA55ED50


def sections(library: pathlib.Path) -> Dict[str, Tuple[int, int, bool]]:
    """Offset, size and whether it is loaded, by name."""
    lines = subprocess.run(["readelf", "-SW", str(library)], capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for line in lines:
        words = line.partition("] ")[2].split()
        if len(words) > 6 and words[0].startswith("."):
            found[words[0]] = (int(words[3], 16), 0 if words[1] == "NOBITS" else int(words[4], 16), "A" in words[6])
    return found


def entries(fatbin: bytes) -> Iterator[Tuple[int, int, str, int]]:
    """Kind, architecture, compression and stored bytes of each entry of each container in the section."""
    at = 0
    while at + 16 <= len(fatbin):
        magic, _, header, size = struct.unpack_from("<IHHQ", fatbin, at)
        if magic != _CONTAINER:
            at += 8  # padding between containers
            continue
        entry, end = at + header, at + header + size
        while entry < end:
            kind, _, entry_header, stored = struct.unpack_from("<HHIQ", fatbin, entry)
            (architecture,) = struct.unpack_from("<I", fatbin, entry + 28)
            (flags,) = struct.unpack_from("<Q", fatbin, entry + 40)
            yield kind, architecture, "zstd" if flags & _ZSTD else "LZ4" if flags & _LZ4 else "plain", stored
            entry += entry_header + stored
        at = end


def main() -> int:
    library = pathlib.Path(sys.argv[1])
    found = sections(library)
    offset, size, _ = found[".nv_fatbin"]
    with library.open("rb") as file:
        file.seek(offset)
        fatbin = file.read(size)
    taken: Dict[Tuple[int, int], Dict[str, int]] = {}
    for kind, architecture, compression, stored in entries(fatbin):
        stores = taken.setdefault((architecture, kind), {})
        stores[compression] = stores.get(compression, 0) + stored
    wrong = []
    for (architecture, kind), stores in sorted(taken.items()):
        name, budgets = ("PTX", PTX_BUDGET) if kind == _PTX else ("machine code", SASS_BUDGET)
        # Small kernels are stored as they are beside compressed ones.
        compression = max(stores, key=lambda each: stores[each])
        stored, budget = sum(stores.values()), budgets[compression]
        print(f"{architecture / 10:4.1f} {name:12} {stored / KIB:6.0f} KiB of {budget // KIB} ({compression})")
        if stored > budget:
            wrong.append(f"{name} for {architecture / 10}")
    if not taken:
        wrong.append("no code for GPUs was found, which cannot be")
    host = sum(size for _, size, is_loaded in found.values() if is_loaded) - size
    print(f"host code and data {host / KIB:6.0f} KiB of {HOST_BUDGET // KIB}; all together {(host + size) / KIB / KIB:.1f} MiB")
    if host > HOST_BUDGET:
        wrong.append("host code")
    total = sum(sum(stores.values()) for stores in taken.values())
    if abs(total - size) > size // 10:
        wrong.append(f"entries add up to {total} of the section's {size} bytes: the reader is wrong")
    if wrong:
        print(f"beyond the budget: {', '.join(wrong)}; find what grew, or raise the budget and write the new sizes down in "
              "docs/install.md")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

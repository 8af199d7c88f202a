"""A launch that the program `kernels` recorded on the emulated machine: see record.h for the file."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Tuple


class AccessError(Exception):
    """Machine code reads or writes where the launch has no memory."""


class Memory:
    """Byte-addressed regions, of which those written are remembered."""

    def __init__(self, regions: List[Tuple[int, bytearray]]) -> None:
        self._regions = sorted(regions, key=lambda region: region[0])
        self._begins = [begin for begin, _ in self._regions]
        self.written: Dict[int, int] = {}  # address: byte

    def _find(self, address: int, size: int) -> Tuple[bytearray, int]:
        place = bisect_right(self._begins, address) - 1
        if place >= 0:
            begin, content = self._regions[place]
            if address + size <= begin + len(content):
                return content, address - begin
        raise AccessError(f"access to {size} bytes at {address:#x}, where the launch has no memory")

    def load(self, address: int, size: int) -> int:
        content, offset = self._find(address, size)
        return int.from_bytes(content[offset : offset + size], "little")

    def store(self, address: int, size: int, value: int) -> None:
        content, offset = self._find(address, size)
        raw = value.to_bytes(size, "little")
        content[offset : offset + size] = raw
        for i, byte in enumerate(raw):
            self.written[address + i] = byte


@dataclass
class Launch:
    row: str
    kernel: str
    grid: Tuple[int, int, int]
    block: Tuple[int, int, int]
    elements: int
    parameters: bytes
    memory: Memory
    after: Memory  # what the emulated machine left


def read_head(path: Path) -> dict:
    with path.open("rb") as file:
        return json.loads(file.readline())


def read(path: Path) -> Launch:
    raw = path.read_bytes()
    end = raw.index(b"\n")
    head = json.loads(raw[:end])
    before, after, position = [], [], end + 1
    for images in (before, after):
        for address, size in head["regions"]:
            images.append((address, bytearray(raw[position : position + size])))
            position += size
    return Launch(
        row=head["row"],
        kernel=head["kernel"],
        grid=tuple(head["grid"]),
        block=tuple(head["block"]),
        elements=head["elements"],
        parameters=bytes.fromhex(head["parameters"]),
        memory=Memory(before),
        after=Memory(after),
    )

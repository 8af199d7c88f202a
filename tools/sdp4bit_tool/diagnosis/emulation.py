"""Programs of the emulated cluster need its build of the library, and programs for GPUs the other one."""

from __future__ import annotations

import os
import pathlib
from typing import Optional, Sequence

from ..elf import NotElf, open_elf
from ..preload import Obstacle
from .loader import Loader, Object


def is_emulated(library: pathlib.Path) -> bool:
    """The library for GPUs has CUDA's runtime inside; the other one shares the emulated one with the program."""
    elf = open_elf(str(library))
    if elf is None:
        return False
    with elf:
        try:
            return any(name.startswith("libcudart.so") for name in elf.needed)
        except NotElf:
            return False


def find_mismatch(objects: Sequence[Object], library: pathlib.Path) -> Optional[Obstacle]:
    """From what a program would load. The emulated runtime has its libsdp4bit.so beside it."""
    for each in objects:
        if not os.path.basename(each.path).startswith("libcudart.so"):
            continue
        folder = os.path.dirname(each.path)
        partner = os.path.join(folder, "libsdp4bit.so")
        if os.path.isfile(partner):
            if not os.path.samefile(partner, library):
                return Obstacle(f"{objects[0].path} uses the emulated CUDA of {folder}, and {library} is not the library that "
                                "belongs to it", f"--library {partner}")
        elif is_emulated(library):
            return Obstacle(f"{library} belongs to the emulated cluster, and {objects[0].path} uses {each.path}",
                            "name the library for GPUs with --library")
    return None


def find_mismatch_of(program: str, library: pathlib.Path) -> Optional[Obstacle]:
    """The same from the program's file."""
    return find_mismatch(Loader(os.environ.get("LD_LIBRARY_PATH", "")).closure(program)[0], library)

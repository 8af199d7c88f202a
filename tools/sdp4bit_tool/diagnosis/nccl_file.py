"""What one file has to do with NCCL: is it NCCL, does it call it, and can those calls be taken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Optional, Set, Tuple

from ..elf import ElfFile, NotElf, open_elf
from ..preload import defines

TAKEN = ("ncclReduceScatter", "ncclAllGather")
_OTHERS = ("ncclCommInitRank", "ncclCommInitRankConfig", "ncclAllReduce", "ncclGroupStart")
_PROOF = "pncclAllGather"
_BANNER = re.compile(rb"NCCL version (\d+)\.(\d+)\.(\d+)")
_ASK = """import ctypes, sys
version = ctypes.c_int()
ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version))
print(version.value)"""

IS_NCCL, LINKED, STATIC, BOUND, HIDDEN, OPENS, NOTHING = "nccl", "linked", "static", "bound", "hidden", "opens", "nothing"


@dataclass(frozen=True)
class Role:
    """`kind` is one of the words above; `functions` are those of TAKEN that it calls."""

    path: str
    kind: str
    functions: Tuple[str, ...] = ()
    calls_proof: bool = True  # the second names, pncclX, are exported too; the library calls those

    @property
    def can_be_taken(self) -> Optional[bool]:
        """By preloading; None where it has no calls of its own."""
        if self.kind in (LINKED, STATIC):
            return bool(self.functions) and self.calls_proof
        return False if self.kind in (BOUND, HIDDEN, OPENS) else None


def _banner(elf: ElfFile) -> Optional[Tuple[int, int, int]]:
    at = elf.find_bytes(b"NCCL version 2")
    match = _BANNER.match(elf.data[at : at + 40]) if at >= 0 else None
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def role_of(path: str, deep: bool) -> Role:
    """Reads the file. `deep` also looks for a hidden NCCL and for its name in texts, which takes a while in large files."""
    elf = open_elf(path)
    if elf is None:
        return Role(path, NOTHING)
    with elf:
        try:
            return _role(path, elf, deep)
        except NotElf:  # the loader would not take it
            return Role(path, NOTHING)


def _role(path: str, elf: ElfFile, deep: bool) -> Role:
    names: Set[str] = {*TAKEN, *_OTHERS, _PROOF}
    symbols = elf.dynamic_symbols(names)
    defined = {symbol.name for symbol in symbols if symbol.is_defined and symbol.is_visible and not symbol.is_local}
    imported = {symbol.name for symbol in symbols if not symbol.is_defined}
    functions = tuple(name for name in TAKEN if name in imported or name in defined)
    if elf.soname.startswith("libnccl.so") or (_PROOF in defined and os.path.basename(path).startswith("libnccl")):
        return Role(path, IS_NCCL, functions, _PROOF in defined)
    if imported - {_PROOF}:
        return Role(path, LINKED, functions)
    if defined & {*TAKEN}:
        called = elf.references({*TAKEN})
        if elf.is_symbolic or not called:
            return Role(path, BOUND, functions)
        return Role(path, STATIC, tuple(name for name in TAKEN if name in called), _PROOF in defined)
    # An NCCL inside says its version in a text. Functions of its names without that are stand-ins that look the real
    # ones up, as XLA's; who does so has their names as texts.
    has_names = any(symbol.is_defined for symbol in elf.all_symbols({*TAKEN}))
    if has_names or deep:
        if _banner(elf) is not None:
            return Role(path, HIDDEN)
        opens = any(elf.find_bytes(text) >= 0 for text in (b"libnccl.so", b"\0ncclAllGather\0"))
        if has_names or (opens and not any(name.startswith("libnccl.so") for name in elf.needed)):
            return Role(path, OPENS)
    return Role(path, NOTHING)


def version_of(path: str) -> Optional[Tuple[int, int, int]]:
    """NCCL's version: from the text that it prints, else by asking it, in a process of its own."""
    elf = open_elf(path)
    if elf is None:
        return None
    with elf:
        version = _banner(elf)
    has_function = version is None and defines(path, "ncclGetVersion")
    if version or not has_function:
        return version
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        answer = subprocess.run([sys.executable, "-c", _ASK, path], env=clean, capture_output=True, text=True, timeout=20,
                                check=False)
        code = int(answer.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return (code // 10000, code // 100 % 100, code % 100) if code >= 20900 else None

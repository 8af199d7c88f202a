"""Reads from an ELF file what the loader reads: kind, needed libraries, search paths, symbols and references.

Files of several gigabytes are common here, so the file is mapped and only its dynamic parts are touched. Names are
found by searching the string table, not by decoding every symbol.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

MACHINES = {3: "i386", 40: "arm", 62: "x86-64", 183: "aarch64", 243: "riscv", 21: "ppc64", 22: "s390"}
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ = 1, 2, 5, 6, 7, 8
DT_STRSZ, DT_SONAME, DT_RPATH, DT_SYMBOLIC, DT_JMPREL, DT_RUNPATH, DT_FLAGS = 10, 14, 15, 16, 23, 29, 30
DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF
DF_SYMBOLIC = 2
SHT_SYMTAB, SHT_DYNSYM = 2, 11
EM_386 = 3


class NotElf(Exception):
    """The file is something else, or is cut off; the text says which."""


class Symbol(NamedTuple):
    """One entry of a symbol table."""

    name: str
    is_defined: bool
    is_local: bool
    is_visible: bool  # to other objects


@dataclass(frozen=True)
class Kind:
    """What a loader must be to take it."""

    bits: int
    machine: str

    def __str__(self) -> str:
        return f"{self.bits}-bit {self.machine}"


class _Table(NamedTuple):
    symbols: int  # offset in the file
    size: int
    strings: int
    strings_size: int


class ElfFile:
    """An open file. Use it as a context manager."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(64)
            if head[:4] != b"\x7fELF":
                raise NotElf("it is no ELF file")
            if size < 64 or head[4] not in (1, 2) or head[5] not in (1, 2):
                raise NotElf("its ELF header is cut off or damaged")
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._read_head()
        except NotElf:
            self.data.close()
            raise

    def __enter__(self) -> "ElfFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.data.close()

    def _read_head(self) -> None:
        wide, self.order = self.data[4] == 2, "<" if self.data[5] == 1 else ">"
        self.wide = wide
        self.type, machine = self._unpack("HH", 16)
        self.kind = Kind(64 if wide else 32, MACHINES.get(machine, f"machine {machine}"))
        self.program_headers = list(self._program_headers())
        self.interpreter = self._interpreter()
        self.dynamic = self._dynamic()
        self.is_static = self.interpreter is None and not self.dynamic

    def _unpack(self, layout: str, offset: int) -> Tuple[int, ...]:
        try:
            return struct.unpack_from(self.order + layout, self.data, offset)
        except (struct.error, OverflowError):
            raise NotElf("it is cut off or damaged") from None

    def _find(self, pattern: bytes, start: int, end: int) -> int:
        size = len(self.data)
        return self.data.find(pattern, min(start, size), min(end, size))

    def _program_headers(self) -> Iterator[Tuple[int, int, int, int, int]]:
        """(type, flags, offset, address, size in the file)"""
        offset = self._unpack("Q", 32)[0] if self.wide else self._unpack("I", 28)[0]
        size, count = self._unpack("HH", 54 if self.wide else 42)
        for at in range(offset, offset + size * count, size or 1):
            if self.wide:
                kind, flags, place, address, _, bytes_in_file = self._unpack("IIQQQQ", at)
            else:
                kind, place, address, _, bytes_in_file, _, flags = self._unpack("IIIIIII", at)
            yield kind, flags, place, address, bytes_in_file

    def _interpreter(self) -> Optional[str]:
        for kind, _, offset, _, size in self.program_headers:
            if kind == PT_INTERP:
                return self.data[offset : offset + size].rstrip(b"\0").decode(errors="replace")
        return None

    def _dynamic(self) -> List[Tuple[int, int]]:
        layout = self.order + ("qQ" if self.wide else "iI")
        step = struct.calcsize(layout)
        for kind, _, offset, _, size in self.program_headers:
            if kind == PT_DYNAMIC:
                part = self.data[offset : offset + size]
                part = part[: len(part) // step * step]
                return [entry for entry in struct.iter_unpack(layout, part) if entry[0] != 0]
        return []

    def _offset(self, address: int) -> int:
        for kind, _, offset, start, size in self.program_headers:
            if kind == PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise NotElf("its tables lie outside of the file")

    def _tag(self, tag: int) -> Optional[int]:
        return next((value for key, value in self.dynamic if key == tag), None)

    def _text(self, offset: int) -> str:
        strings = self._tag(DT_STRTAB)
        if strings is None:
            return ""
        start = self._offset(strings) + offset
        end = self._find(b"\0", start, start + 4096)
        if end < 0:
            raise NotElf("its names are cut off or damaged")
        return self.data[start:end].decode(errors="replace")

    def _texts(self, tag: int) -> List[str]:
        return [self._text(value) for key, value in self.dynamic if key == tag]

    @property
    def needed(self) -> List[str]:
        return self._texts(DT_NEEDED)

    @property
    def soname(self) -> str:
        return next(iter(self._texts(DT_SONAME)), "")

    @property
    def rpath(self) -> List[str]:
        return [folder for text in self._texts(DT_RPATH) for folder in text.split(":") if folder]

    @property
    def runpath(self) -> List[str]:
        return [folder for text in self._texts(DT_RUNPATH) for folder in text.split(":") if folder]

    @property
    def is_symbolic(self) -> bool:
        """Bound to itself first: -Bsymbolic."""
        return self._tag(DT_SYMBOLIC) is not None or bool((self._tag(DT_FLAGS) or 0) & DF_SYMBOLIC)

    def needed_versions(self) -> Dict[str, Set[str]]:
        """By library, the symbol versions that it must have: {"libc.so.6": {"GLIBC_2.34", ...}}."""
        found: Dict[str, Set[str]] = {}
        start, count = self._tag(DT_VERNEED), self._tag(DT_VERNEEDNUM) or 0
        at = self._offset(start) if start is not None else 0
        for _ in range(min(count, 1000)):  # a damaged file must not keep us
            _, entries, file, first, following = self._unpack("HHIII", at)
            inner = at + first
            for _ in range(entries):
                _, _, _, name, step = self._unpack("IHHII", inner)
                found.setdefault(self._text(file), set()).add(self._text(name))
                inner += step
            at += following
        return found

    def _tables(self, wanted: int) -> Iterator[_Table]:
        """Symbol tables by section headers, which stripped files keep for the dynamic one."""
        offset = self._unpack("Q", 40)[0] if self.wide else self._unpack("I", 32)[0]
        size, count = self._unpack("HH", 58 if self.wide else 46)
        layout = "IIQQQQI" if self.wide else "IIIIIII"
        try:
            headers = [self._unpack(layout, at) for at in range(offset, offset + size * count, size or 1)] if offset else []
        except NotElf:  # the loader does not read them either
            return
        for header in headers:
            if header[1] == wanted and header[6] < len(headers):
                strings = headers[header[6]]
                yield _Table(header[4], header[5], strings[4], strings[5])

    def _dynamic_table(self) -> Optional[_Table]:
        for table in self._tables(SHT_DYNSYM):
            return table
        symbols, strings = self._tag(DT_SYMTAB), self._tag(DT_STRTAB)
        if symbols is None or strings is None:
            return None
        begin, end = self._offset(symbols), self._offset(strings)  # linkers put the strings behind the symbols
        return _Table(begin, max(0, end - begin), end, self._tag(DT_STRSZ) or 0)

    def _named(self, table: _Table, names: Set[str]) -> Iterator[Tuple[int, Symbol]]:
        """Entries with one of these names, with their index."""
        end = table.strings + table.strings_size
        offsets: Dict[int, str] = {}
        for name in names:
            pattern = name.encode() + b"\0"
            at = self._find(pattern, table.strings, end)
            while at >= 0:  # a longer name may end in this one and share its bytes
                offsets[at - table.strings] = name
                at = self._find(pattern, at + 1, end)
        if not offsets:
            return
        layout = self.order + ("IBBHQQ" if self.wide else "IIIBBH")
        step = struct.calcsize(layout)
        part = self.data[table.symbols : table.symbols + table.size]
        part = part[: len(part) // step * step]
        for index, entry in enumerate(struct.iter_unpack(layout, part)):
            name = offsets.get(entry[0])
            if name is None:
                continue
            info, other, section = (entry[1], entry[2], entry[3]) if self.wide else (entry[3], entry[4], entry[5])
            yield index, Symbol(name, section != 0, info >> 4 == 0, other & 3 in (0, 3))

    def dynamic_symbols(self, names: Set[str]) -> List[Symbol]:
        """Those of the names that the loader sees: imported or exported."""
        table = self._dynamic_table()
        return [symbol for _, symbol in self._named(table, names)] if table else []

    def all_symbols(self, names: Set[str]) -> List[Symbol]:
        """Those of the names in the table for debuggers, hidden ones included; none in a stripped file."""
        return [symbol for table in self._tables(SHT_SYMTAB) for _, symbol in self._named(table, names)]

    def references(self, names: Set[str]) -> Set[str]:
        """Those of the names that the loader binds for this file's own use: calls and pointers that others can take."""
        table = self._dynamic_table()
        indices = {index: symbol.name for index, symbol in self._named(table, names)} if table else {}
        found: Set[str] = set()
        if not indices or not self.wide:
            return found
        for start_tag, size_tag in ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)):
            start, size = self._tag(start_tag), self._tag(size_tag)
            if start is None or not size:
                continue
            at = self._offset(start)
            part = self.data[at : at + size // 24 * 24]
            part = part[: len(part) // 24 * 24]
            for _, info, _ in struct.iter_unpack(self.order + "QQq", part):
                name = indices.get(info >> 32)
                if name:
                    found.add(name)
        return found

    def find_bytes(self, pattern: bytes) -> int:
        """Where those bytes are among what the loader maps and no code is, or -1."""
        for kind, flags, offset, _, size in self.program_headers:
            if kind == PT_LOAD and not flags & 1:
                at = self._find(pattern, offset, offset + size)
                if at >= 0:
                    return at
        return self.data.find(pattern) if not any(header[0] == PT_LOAD for header in self.program_headers) else -1


def open_elf(path: str) -> Optional[ElfFile]:
    """The file, or None if it is no ELF file or cannot be read."""
    try:
        return ElfFile(path)
    except (NotElf, OSError, ValueError):
        return None

"""Finds libraries as glibc's loader does, without running anything."""

from __future__ import annotations

import os
import platform
import struct
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from ..elf import ElfFile, Kind, NotElf, open_elf

CACHE = "/etc/ld.so.cache"
_MAGIC = b"glibc-ld.so.cache1.1"
_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


def read_cache(path: str = CACHE) -> Dict[str, List[str]]:
    """What ldconfig wrote: name -> paths, in its order. Empty where there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return {}
    start = data.find(_MAGIC)  # in old caches behind the entries of an older form
    found: Dict[str, List[str]] = {}
    if start < 0:
        return found
    try:
        (count,) = struct.unpack_from("<I", data, start + len(_MAGIC))
        for i in range(count):
            key, value = struct.unpack_from("<4xII", data, start + 48 + 24 * i)
            name, place = (data[start + at : data.index(b"\0", start + at)].decode(errors="replace") for at in (key, value))
            found.setdefault(name, []).append(place)
    except (struct.error, ValueError):
        pass  # cut off: what was read holds
    return found


@dataclass(frozen=True)
class Object:
    """A file that the loader would map, with what it needs."""

    path: str
    needed: Tuple[str, ...]
    rpath: Tuple[str, ...]
    runpath: Tuple[str, ...]
    kind: Kind
    parent: Optional["Object"] = None


def _load(path: str, elf: ElfFile, parent: Optional[Object]) -> Object:
    folder = os.path.dirname(os.path.realpath(path))

    def expand(text: str) -> str:
        for name, value in (("ORIGIN", folder), ("LIB", "lib64"), ("PLATFORM", platform.machine())):
            text = text.replace("${" + name + "}", value).replace("$" + name, value)
        return text

    return Object(path, tuple(elf.needed), tuple(map(expand, elf.rpath)), tuple(map(expand, elf.runpath)), elf.kind, parent)


class Loader:
    """One search order: that of an environment on this machine."""

    def __init__(self, library_path: str = "", cache: Optional[Dict[str, List[str]]] = None) -> None:
        self.library_path = [folder for folder in library_path.replace(";", ":").split(":") if folder]
        self.cache = read_cache() if cache is None else cache
        machine = platform.machine()
        self.folders = [f"/lib/{machine}-linux-gnu", f"/usr/lib/{machine}-linux-gnu", *_FOLDERS]

    def _candidates(self, name: str, requester: Optional[Object]) -> Iterator[str]:
        if "/" in name:
            yield name
            return
        folders: List[str] = []
        if requester is not None and not requester.runpath:
            ancestor: Optional[Object] = requester
            while ancestor is not None:
                folders += ancestor.rpath if not ancestor.runpath else ()
                ancestor = ancestor.parent
        folders += self.library_path
        folders += requester.runpath if requester is not None else ()
        yield from (os.path.join(folder, name) for folder in folders)
        yield from self.cache.get(name, ())
        yield from (os.path.join(folder, name) for folder in self.folders)

    def find(self, name: str, requester: Optional[Object] = None, kind: Optional[Kind] = None) -> Optional[str]:
        """The first file of that name that is of the right kind."""
        wanted = requester.kind if requester is not None else kind
        for path in self._candidates(name, requester):
            elf = open_elf(path) if os.path.isfile(path) else None
            if elf is None:
                continue
            with elf:
                if wanted is None or elf.kind == wanted:
                    return path
        return None

    def load(self, path: str, parent: Optional[Object] = None) -> Optional[Object]:
        """The object of one file."""
        elf = open_elf(path)
        if elf is None:
            return None
        with elf:
            try:
                return _load(path, elf, parent)
            except NotElf:
                return None

    def closure(self, path: str) -> Tuple[List[Object], Dict[str, str]]:
        """The file and all that it needs, in the loader's order; and names that were not found, with who needs them."""
        first = self.load(path)
        objects = [first] if first else []
        names: Dict[str, str] = {}
        missing: Dict[str, str] = {}
        for each in objects:  # grows while it is read: breadth first, as the loader
            for name in each.needed:
                if name in names or name in missing:
                    continue
                place = self.find(name, each)
                found = self.load(place, each) if place else None
                if place and found:
                    names[name] = place
                    objects.append(found)
                else:
                    missing[name] = each.path
        return objects, missing


def is_system_path(path: str, folders: Sequence[str] = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")) -> bool:
    """Whether a file belongs to the system's own libraries rather than to a framework."""
    return any(path.startswith(folder + "/") for folder in folders)

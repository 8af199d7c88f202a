"""Libraries and programs that reach an NCCL in every way that there is; compiled where the tests run.

The NCCL is none: its functions do nothing. Only its names, their binding and its version's text are NCCL's.
"""

from __future__ import annotations

import pathlib
import subprocess
from typing import Sequence

NCCL = """
const char nccl_banner[] = "NCCL version 2.28.9+cuda13.0";
#define NCCL(name) \\
  VISIBLE int p##name(void) { return nccl_banner[0] == 0; } \\
  VISIBLE __attribute__((weak, alias("p" #name))) int name(void);
NCCL(ncclReduceScatter) NCCL(ncclAllGather) NCCL(ncclCommInitRank)
VISIBLE int pncclGetVersion(int* version) { *version = 22809; return 0; }
VISIBLE __attribute__((weak, alias("pncclGetVersion"))) int ncclGetVersion(int* version);
"""
VISIBLE = '#define VISIBLE __attribute__((visibility("default")))\n'
HIDDEN = '#define VISIBLE __attribute__((visibility("hidden")))\n'
USER = """
extern int ncclReduceScatter(void), ncclAllGather(void), ncclCommInitRank(void);
static volatile int never;  /* bound, but not called: no NCCL is here to answer */
__attribute__((visibility("default"))) int step(void) {
  return never ? ncclCommInitRank() + ncclReduceScatter() + ncclAllGather() : 0;
}
"""
OPENER = """
#include <dlfcn.h>
int main(int argc, char** argv) {
  void* nccl = dlopen(argc > 1 ? argv[1] : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  int (*gather)(void) = nccl ? (int (*)(void))dlsym(nccl, "ncclAllGather") : 0;
  return gather ? gather() : 1;
}
"""
STAND_INS = """
#include <dlfcn.h>
static void* table(const char* name) { return dlsym(dlopen("another.so", RTLD_NOW), name); }
#define STAND_IN(name) \
  __attribute__((visibility("hidden"), noinline)) int name(void) { return ((int (*)(void))table(#name))(); }
STAND_IN(ncclReduceScatter) STAND_IN(ncclAllGather)
__attribute__((visibility("default"))) int step(int never) { return never ? ncclReduceScatter() + ncclAllGather() : 0; }
"""
LOADER = """
#include <dlfcn.h>
#include <string.h>
int main(int argc, char** argv) {
  int flags = RTLD_NOW | RTLD_LOCAL | (argc > 2 && strcmp(argv[2], "deep") == 0 ? RTLD_DEEPBIND : 0);
  void* framework = dlopen(argv[1], flags);
  int (*step)(void) = framework ? (int (*)(void))dlsym(framework, "step") : 0;
  return step ? step() : 1;
}
"""
MAIN = "extern int step(void);\nint main(void) { return step(); }\n"


class Fixtures:
    """Builds into one folder: `nccl/libnccl.so.2` and what uses it."""

    def __init__(self, folder: pathlib.Path, compiler: str) -> None:
        self.folder, self.compiler = folder, compiler
        (folder / "nccl").mkdir()
        self.nccl = self.build("nccl/libnccl.so.2", VISIBLE + NCCL, "-shared", "-Wl,-soname,libnccl.so.2")
        (folder / "nccl" / "libnccl.so").symlink_to("libnccl.so.2")

    def build(self, name: str, source: str, *flags: str) -> str:
        """Compiles one C source to that file."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = target.with_suffix(".c")
        text.write_text(source, encoding="utf-8")
        subprocess.run([self.compiler, "-x", "c", "-w", "-fPIC", str(text), "-o", str(target), *flags], check=True)
        text.unlink()
        return str(target)

    def linked(self, name: str, source: str, *flags: str) -> str:
        """Linked to the shared NCCL, which it finds by $ORIGIN."""
        return self.build(name, source, f"-L{self.folder / 'nccl'}", "-lnccl", "-Wl,-rpath,$ORIGIN/nccl", *flags)

    def framework(self, name: str = "libframework.so") -> str:
        return self.linked(name, USER, "-shared")

    def program(self) -> str:
        return self.linked("program", USER + MAIN)

    def loader(self) -> str:
        return self.build("loader", LOADER, "-ldl")

    def opener(self) -> str:
        return self.build("opener", OPENER, "-ldl")

    def lost(self) -> str:
        """Linked to an NCCL that is nowhere to be found."""
        other = self.build("other/libnccl.so", VISIBLE + NCCL, "-shared", "-Wl,-soname,libnccl.so.77")
        path = self.build("lost.so", USER, "-shared", f"-L{self.folder / 'other'}", "-lnccl")
        pathlib.Path(other).rename(self.folder / "other" / "libnccl.so.77")
        return path

    def static(self, name: str, visible: bool, flags: Sequence[str] = ()) -> str:
        """A library with NCCL inside of it."""
        return self.build(name, (VISIBLE if visible else HIDDEN) + NCCL + USER, "-shared", *flags)


def elf_header(bits: int, machine: int) -> bytes:
    """The head of an ELF library for another machine, with one program header and nothing more."""
    wide = bits == 64
    head = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    if wide:
        fields = ((3, 2), (machine, 2), (1, 4), (0, 8), (64, 8), (0, 8), (0, 4), (64, 2), (56, 2), (1, 2), (64, 2), (0, 2), (0, 2))
    else:
        fields = ((3, 2), (machine, 2), (1, 4), (0, 4), (52, 4), (0, 4), (0, 4), (52, 2), (32, 2), (1, 2), (40, 2), (0, 2), (0, 2))
    body = b"".join(value.to_bytes(size, "little") for value, size in fields)
    interpreter = (3).to_bytes(4, "little")  # PT_INTERP, so that it is a program with a loader
    return head + body + interpreter + bytes(256)

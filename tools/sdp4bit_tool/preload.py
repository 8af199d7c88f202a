"""LD_PRELOAD with the library in its place, and programs for which the loader would ignore it."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
from typing import Callable, List, NamedTuple, Optional, Sequence

from .elf import ElfFile, NotElf, open_elf
from .errors import UserError

_SEPARATORS = re.compile(r"[ :]+")


def split_preload(text: str) -> List[str]:
    """The loader's reading: colons and spaces separate."""
    return [word for word in _SEPARATORS.split(text) if word]


def defines(path: str, name: str) -> bool:
    """Whether the file brings a function of that name."""
    elf = open_elf(path)
    if elf is None:
        return False
    with elf:
        try:
            return any(symbol.is_defined for symbol in elf.dynamic_symbols({name}))
        except NotElf:
            return False


def is_nccl(path: str) -> bool:
    """Whether the file brings NCCL's own functions; libraries that only take its calls have no second names."""
    return defines(path, "pncclAllGather")


def compose_preload(before: str, library: pathlib.Path, brings_nccl: Callable[[str], bool] = is_nccl) -> str:
    """`before` with the library added. It stays behind what is there, for sanitizers must be first and other libraries
    that take NCCL's calls work only before it; but an NCCL that is preloaded comes behind it, or it would be called
    first."""
    if _SEPARATORS.search(str(library)):
        raise UserError(f"{library}: LD_PRELOAD cannot hold a path with spaces or colons; make a link to the library "
                        "without them and name it with --library")
    words = split_preload(before)
    for word in words:
        if not os.path.basename(word).startswith("libsdp4bit.so"):
            continue
        if os.path.exists(word) and os.path.samefile(word, library):
            return before
        raise UserError(f"LD_PRELOAD already holds another libsdp4bit.so, {word}, than {library}: take it out, or name it "
                        "with --library")
    place = next((i for i, word in enumerate(words) if brings_nccl(word)), len(words))
    return ":".join([*words[:place], str(library), *words[place:]])


def find_command(word: str, not_found: int = 2, not_started: int = 2) -> str:
    """The file that a command's first word names; the numbers are exit codes."""
    program = shutil.which(word)
    if program is None and os.path.exists(word) and "/" in word:
        raise UserError(f"{word}: it cannot be executed", not_started)
    if program is None:
        raise UserError(f"{word}: there is no such {'file' if '/' in word else 'program in PATH'}", not_found)
    return program


class Obstacle(NamedTuple):
    """Why a program's loader would not preload the library, and what to do."""

    found: str
    advice: str


def _interpreter_of(path: str) -> Optional[str]:
    """The program that a script names in its first line; for `env NAME` the NAME's path is not looked for."""
    try:
        with open(path, "rb") as file:
            line = file.readline(256)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode(errors="replace").split()
    return words[0] if words else None


def _of_elf(path: str, elf: ElfFile, library: ElfFile) -> Optional[Obstacle]:
    if elf.is_static:
        return Obstacle(f"{path} is linked statically: it has no loader, so LD_PRELOAD does nothing",
                        "link it dynamically; nothing else reaches it")
    if elf.kind != library.kind:
        return Obstacle(f"{path} is {elf.kind}, and the library {library.kind}: the loader would ignore it",
                        f"build the library for {elf.kind}" if elf.kind.bits == 64 else "64-bit programs only")
    if elf.interpreter and "ld-musl" in elf.interpreter:
        return Obstacle(f"{path} uses musl's loader, and the library needs glibc", "use an image with glibc")
    return None


def _is_privileged(path: str) -> bool:
    try:
        if os.stat(path).st_mode & 0o6000:
            return True
        return bool(os.getxattr(path, "security.capability"))
    except OSError:  # mostly: it has no capabilities
        return False


def find_obstacle(program: str, library: pathlib.Path) -> Optional[Obstacle]:
    """What keeps the library out of that program, from its file alone."""
    path = program
    for _ in range(4):  # a script's interpreter may be a script
        if _is_privileged(path):
            return Obstacle(f"{path} runs with another user's rights or capabilities, so the loader ignores LD_PRELOAD",
                            f"start sdp4bit inside of it: {os.path.basename(path)} ... sdp4bit run -- ...")
        elf = open_elf(path)
        if elf is not None:
            with elf, ElfFile(str(library)) as own:
                return _of_elf(path, elf, own)
        interpreter = _interpreter_of(path)
        if interpreter is None:
            return None
        path = interpreter
    return None


class Wrapper(NamedTuple):
    """A program that starts the job elsewhere or with a fresh environment. `drops`: surely; else only on other nodes."""

    text: str
    advice: str
    drops: bool = True


_INSIDE = "put `sdp4bit run --` behind it, before the program that it starts"
_FRESH = "the container gets an environment and files of its own"
_WRAPPERS = {
    "ssh": ("its environment does not reach the other machine", _INSIDE),
    "sudo": ("it drops LD_PRELOAD", _INSIDE),
    "su": ("it drops LD_PRELOAD", _INSIDE),
    "doas": ("it drops LD_PRELOAD", _INSIDE),
    "docker": (_FRESH, "use the command inside of the container"),
    "podman": (_FRESH, "use the command inside of the container"),
    "kubectl": ("the pod gets an environment of its own", "use the command in the pod's own command line"),
    "sbatch": ("the job runs later, and nothing of it can be seen here", "use `sdp4bit run` in the batch script"),
}
_LAUNCHERS = ("mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.hydra", "orterun", "prterun")
_TOLD = ("LD_PRELOAD", "-genvall", "-envall")


def find_wrapper(command: Sequence[str]) -> Optional[Wrapper]:
    """What is known of the command's first word, where it loses what is set."""
    name, shown = os.path.basename(command[0]), shlex.quote(command[0])
    if name in _WRAPPERS:
        why, advice = _WRAPPERS[name]
        return Wrapper(f"{shown}: {why}", advice)
    if name == "env" and any(word in ("-i", "-", "--ignore-environment") for word in command[1:]):
        return Wrapper(f"{shown}: -i drops LD_PRELOAD", _INSIDE)
    if name in _LAUNCHERS and not any(told in word for word in command for told in _TOLD):
        return Wrapper(f"{shown}: on other nodes it hands on only the variables that it is told to", _INSIDE, drops=False)
    return None

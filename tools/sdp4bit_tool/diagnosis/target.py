"""Looks at what the user named: a program, a library, a Python interpreter or a script, from files alone."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Dict, List, Optional, Tuple

from ..elf import ElfFile, NotElf
from ..errors import UserError
from ..preload import find_obstacle
from .callers import add_nccl, add_outcome, add_roles
from .emulation import find_mismatch
from .finding import FAIL, NOTE, OK, Diagnosis, listed
from .loader import Loader, is_system_path
from .nccl_file import IS_NCCL, NOTHING, Role, role_of
from .python_files import Interpreter, ask, find_frameworks, find_wheel, looks_like_python

Version = Optional[Tuple[int, int, int]]


def locate(name: str) -> str:
    """The file that the name stands for, or a UserError that says what is wrong with it."""
    path = name
    if "/" not in name and not os.path.exists(name):
        path = shutil.which(name) or ""
        if not path:
            raise UserError(f"{name}: there is no such file here, and no such program in PATH")
    if os.path.isdir(path):
        inside = os.path.join(path, "bin", "python")
        if os.path.isfile(inside):
            return inside  # a virtual environment
        raise UserError(f"{name} is a folder: name a program, a library such as torch/lib/libtorch_cuda.so, or bin/python of a "
                        "virtual environment")
    if not os.path.exists(path):
        raise UserError(f"{name}: there is no such file")
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError as error:
        raise UserError(f"{name} cannot be read: {error.strerror}") from None
    if head == b"\x7fELF":
        try:
            with ElfFile(path) as elf:
                _ = elf.needed, elf.soname, elf.rpath, elf.runpath, elf.dynamic_symbols({"ncclAllGather"}), elf.references({"ncclAllGather"})
        except NotElf as error:
            raise UserError(f"{name} is damaged: {error}") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{name} cannot be read: {error}") from None
    elif head[:2] != b"#!":
        raise UserError(f"{name} is neither a program nor a library: it is no ELF file and has no #! line")
    return path


class TargetReader:
    """One look at one target."""

    def __init__(self, loader: Loader, library: pathlib.Path, oldest_nccl: int, diagnosis: Diagnosis) -> None:
        self.loader, self.library, self.oldest, self.diagnosis = loader, library, oldest_nccl, diagnosis

    def read(self, path: str) -> Version:
        """NCCL's version, where one was found."""
        if looks_like_python(path):
            interpreter = ask(path)
            if interpreter is not None:
                return self._python(path, interpreter)
        with open(path, "rb") as file:
            is_script = file.read(2) == b"#!"
        return self._script(path) if is_script else self._elf(path)

    def _script(self, path: str) -> Version:
        with open(path, "rb") as file:
            words = file.readline(256)[2:].decode(errors="replace").split()
        name = words[0] if words else ""
        if os.path.basename(name) == "env":
            name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
        program = shutil.which(name) if name else None
        if program is None:
            self.diagnosis.add(FAIL, "program", f"{path} is a script for {name or 'nothing'}, which is not here",
                               "install it, or run this where the job runs")
            return None
        if looks_like_python(program):
            interpreter = ask(program)
            if interpreter is not None:
                self.diagnosis.add(OK, "program", f"{path} is a script for Python")
                return self._python(program, interpreter)
        self.diagnosis.add(FAIL, "program", f"{path} is a script for {program}: what it will start cannot be seen from its file",
                           f"sdp4bit doctor -- {path}  runs it and watches, or name the program that it starts")
        self.diagnosis.reaches = False
        return None

    def _elf(self, path: str) -> Version:
        with ElfFile(path) as elf:
            kind, is_program = elf.kind, elf.interpreter is not None or elf.is_static
            word = "a program" if is_program else "a library"
            imports_python = any(name.startswith("libpython3") for name in elf.needed) or bool(elf.dynamic_symbols({"Py_BytesMain"}))
        obstacle = find_obstacle(path, self.library)
        if obstacle:
            self.diagnosis.add(FAIL, "program", obstacle.found, obstacle.advice)
            self.diagnosis.reaches = False
            return None
        if is_program and imports_python:
            interpreter = ask(path)
            if interpreter is not None and interpreter.version:
                return self._python(path, interpreter)
        self.diagnosis.add(OK, "program", f"{path} is {word}, {kind}")
        return self._objects([path], path)

    def _objects(self, paths: List[str], what: str) -> Version:
        """The files and all that they need."""
        objects, missing = [], {}
        for path in paths:
            found, absent = self.loader.closure(path)
            objects += [each for each in found if each.path not in (known.path for known in objects)]
            missing.update(absent)
        if not objects:  # it changed since it was looked at
            raise UserError(f"{paths[0]} cannot be read any more")
        mismatch = find_mismatch(objects, self.library)
        if mismatch:
            self.diagnosis.add(FAIL, "program", mismatch.found, mismatch.advice)
        roles = [role_of(each.path, deep=False) for each in objects]
        is_nccl = roles[0].kind == IS_NCCL
        nobody = not is_nccl and all(role.kind in (NOTHING, IS_NCCL) for role in roles)
        for i, role in enumerate(roles):
            # Who does not call NCCL by name may hide or open one. That takes a look at all of a file's data, so what is
            # only needed by others is looked at where nobody else was found.
            if role.kind == NOTHING and (role.path in paths or (nobody and not is_system_path(role.path))):
                roles[i] = role_of(role.path, deep=True)
        nccls = [role.path for role in roles if role.kind == IS_NCCL]
        version: Version = None
        for path in nccls:
            version = add_nccl(path, self.oldest, self.diagnosis) or version
        self._missing(missing, roles)
        add_roles(roles, self.diagnosis)
        if is_nccl:
            self.diagnosis.reaches = True
            self.diagnosis.add(OK, "calls", "this is NCCL itself: preloading works for programs and libraries that are linked to it")
        add_outcome(self.diagnosis, what, nccls)
        return version

    def _missing(self, missing: Dict[str, str], roles: List[Role]) -> None:
        nccl = [name for name in missing if name.startswith("libnccl.so")]
        others = [name for name in missing if name not in nccl]
        if nccl:
            self.diagnosis.add(FAIL, "nccl", f"{missing[nccl[0]]} needs {nccl[0]}, which is not found",
                               "pip install nvidia-nccl-cu12 (or -cu13) into its environment, or add NCCL's folder to LD_LIBRARY_PATH")
        if others and any(role.kind != NOTHING for role in roles):
            self.diagnosis.add(NOTE, "program", f"not found from here: {listed(others)}", "nothing, if the program adds their folders itself")

    def _python(self, path: str, interpreter: Interpreter) -> Version:
        with_version = f"Python {interpreter.version}" if interpreter.version else "Python, which cannot be run here"
        self.diagnosis.add(OK, "program", f"{path} is {with_version} ({interpreter.path})")
        obstacle = find_obstacle(interpreter.path, self.library) if os.path.isfile(interpreter.path) else None
        if obstacle:
            self.diagnosis.add(FAIL, "program", obstacle.found, obstacle.advice)
            self.diagnosis.reaches = False
            return None
        frameworks = find_frameworks(interpreter.folders)
        for framework in frameworks:
            if framework.is_cpu_only:
                self.diagnosis.add(NOTE, "program", f"{framework.name} is built without CUDA here, so it has no NCCL",
                                   "install a build for CUDA")
        named = [framework for framework in frameworks if framework.files]
        if not named:
            wheel = find_wheel(interpreter.folders)
            nccls = [wheel] if wheel else []
            self.diagnosis.add(FAIL, "program", "this Python has no framework that calls NCCL, of those known here" +
                               (f", though it has {wheel}" if wheel else ""),
                               "name the environment's own interpreter, or run what imports it: sdp4bit doctor -- python -c 'import ...'")
            self.diagnosis.reaches = False
            return add_nccl(nccls[0], self.oldest, self.diagnosis) if nccls else None
        self.diagnosis.add(OK, "program", f"it has {listed([framework.name for framework in named])}")
        return self._objects([file for framework in named for file in framework.files], path)


"""What follows for the library from the roles that a process's files have towards NCCL."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Sequence, Tuple

from .finding import FAIL, NOTE, OK, WARN, Diagnosis, listed
from .nccl_file import BOUND, HIDDEN, IS_NCCL, LINKED, OPENS, STATIC, TAKEN, Role, version_of

OLDEST, NEWEST = (2, 18, 0), (2, 32, 99)  # of NCCL, that the library is tested with; older ones back to what it says may work
_NOBODY = "nothing can be done from outside: use a build that is linked to libnccl.so.2 (PyTorch's wheels are)"
_WHY_NOT = {
    BOUND: ("has NCCL inside and its calls were bound when it was linked (-Bsymbolic, or a program's own): they cannot be "
            "taken", _NOBODY),
    HIDDEN: ("has NCCL inside with hidden symbols: its calls cannot be taken, neither by preloading nor as a plugin", _NOBODY),
    OPENS: ("looks NCCL's functions up itself (dlopen and dlsym), so its calls go past whatever is preloaded, and past the plugin",
            "its own calls stay native; frameworks that are linked to NCCL (PyTorch) are not touched by this"),
}


def version_text(version: Tuple[int, int, int]) -> str:
    return ".".join(map(str, version))


def add_nccl(path: str, oldest: int, diagnosis: Diagnosis) -> Optional[Tuple[int, int, int]]:
    """NCCL's file and version, against what the library can use (a version code) and was tested with."""
    version = version_of(path)
    least = (oldest // 10000, oldest // 100 % 100, oldest % 100)
    if version is None:
        diagnosis.add(WARN, "nccl", f"{path}: its version cannot be told from the file", "run the job with NCCL_DEBUG=VERSION")
    elif version < least:
        diagnosis.add(FAIL, "nccl", f"{path} is NCCL {version_text(version)}: it lacks the second names (pncclX) that the library "
                      f"calls", f"use NCCL {version_text(OLDEST)[:-2]} or later")
    elif version < OLDEST or version > NEWEST:
        diagnosis.add(WARN, "nccl", f"{path} is NCCL {version_text(version)}; the library is tested with {OLDEST[0]}.{OLDEST[1]} to "
                      f"{NEWEST[0]}.{NEWEST[1]}", "try SDP4BIT_LOG=info on a short run first")
    else:
        diagnosis.add(OK, "nccl", f"{path} is NCCL {version_text(version)}")
    return version


def describe_calls(role: Role) -> str:
    return f"calls {' and '.join(role.functions)}"


def add_roles(roles: Sequence[Role], diagnosis: Diagnosis, is_watched: bool = False) -> None:
    """Says for each file whether its calls can be taken. A file that cannot be is a failure only if none can: a process
    may hold several users of NCCL. What was watched was seen; there the bindings decide."""
    takable = [role for role in roles if role.can_be_taken]
    for role in takable:
        if is_watched:
            continue
        how = "as a function of another library" if role.kind == LINKED else "by its exported names, though NCCL is inside of it"
        diagnosis.add(OK, "calls", f"{role.path} {describe_calls(role)} {how}: preloading takes these calls")
        diagnosis.reaches = True
        diagnosis.plugin_reaches = True
    for role in roles:
        if role.kind in (LINKED, STATIC) and not role.can_be_taken and not is_watched:
            text = ("has NCCL inside without its second names (pncclX), which the library needs" if role.functions else
                    "calls NCCL, but neither ReduceScatter nor AllGather")
            level = NOTE if takable else FAIL
            diagnosis.add(level, "calls", f"{role.path} {text}", "" if level == NOTE else "there is nothing to compress in it"
                          if not role.functions else _NOBODY)
        elif role.kind in _WHY_NOT:
            text, todo = _WHY_NOT[role.kind]
            level = WARN if takable or diagnosis.reaches else FAIL
            diagnosis.add(level, "calls", f"{role.path} {text}", todo)
    if diagnosis.reaches is None and any(role.can_be_taken is False for role in roles):
        diagnosis.reaches = False
        diagnosis.plugin_reaches = False


def is_library(path: str) -> bool:
    """Whether the loader speaks of sdp4bit, which LD_PRELOAD may name in several ways."""
    return os.path.basename(path).startswith("libsdp4bit.so")


def add_bindings(bindings: Sequence[Tuple[str, str, str]], roles: Dict[str, Role], diagnosis: Diagnosis) -> None:
    """What the loader was seen to bind, with the library preloaded: who calls what, and where that leads."""
    callers: Dict[str, Dict[str, List[str]]] = {}
    for who, whose, function in sorted(bindings):
        if not is_library(who):
            callers.setdefault(who, {}).setdefault(whose, []).append(function)
    for who, targets in callers.items():
        for whose, functions in targets.items():
            names = " and ".join(name for name in TAKEN if name in functions)
            is_nccl = roles[who].kind == IS_NCCL if who in roles else False
            if is_library(whose) and not is_nccl:
                diagnosis.add(OK, "calls", f"{names} of {who} lead to the library")
                diagnosis.reaches = True
                diagnosis.plugin_reaches = True
            elif not is_library(whose) and who == whose:
                diagnosis.add(WARN, "calls", f"{whose} was asked for {names} by name (dlopen and dlsym): such calls go past "
                              "the library and stay native", "nothing, where another user of NCCL in the process is the one that counts")
            elif not is_library(whose):
                diagnosis.add(WARN, "calls", f"{names} of {who} lead to {whose}, past the library: it was loaded with "
                              "RTLD_DEEPBIND", "use the plugin's way: NCCL_NET_PLUGIN=sdp4bit or NCCL_PROFILER_PLUGIN=sdp4bit (docs/loading.md)")
                diagnosis.plugin_reaches = True
    if diagnosis.reaches is None:
        diagnosis.reaches = False


def add_outcome(diagnosis: Diagnosis, what: str, nccls: Sequence[str], is_watched: bool = False) -> None:
    """The failure where nobody's calls lead to the library and no other finding has said why."""
    if diagnosis.reaches or diagnosis.failures:
        return
    if nccls:
        diagnosis.add(FAIL, "calls", f"{what} loads {listed(list(nccls))}, but no ReduceScatter or AllGather of anybody leads to the "
                      "library", "see the lines above; a program that opens NCCL itself cannot be served")
    elif is_watched:
        diagnosis.add(FAIL, "calls", "no process of the command loaded an NCCL, or anything that calls one",
                      "have it import or start what uses NCCL; a PyTorch that is built without CUDA has none")
    else:
        diagnosis.add(FAIL, "calls", f"{what} has nothing to do with NCCL, as far as can be seen",
                      "name what calls NCCL (libtorch_cuda.so, a program), or run what loads it: sdp4bit doctor -- python -c "
                      "'import torch'")

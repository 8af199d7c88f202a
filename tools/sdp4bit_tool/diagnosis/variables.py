"""The environment that a job started here would get: NCCL's plugins, preloads, switches that make everything native."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Dict, Mapping, Optional, Sequence, Tuple

from ..preload import defines, is_nccl, split_preload
from .finding import NOTE, OK, WARN, Diagnosis, listed
from .loader import Loader

_PLUGINS = {"NCCL_NET_PLUGIN": "net", "NCCL_PROFILER_PLUGIN": "profiler"}
_HARMLESS = ("NCCL_TUNER_PLUGIN", "NCCL_ENV_PLUGIN")
_LINE = re.compile(r"^\s*([A-Z0-9_]+)\s*=\s*(.*?)\s*$")


def read_conf(environment: Mapping[str, str]) -> Dict[str, Tuple[str, str]]:
    """NCCL's own files of variables: name -> (value, file). The environment comes before them."""
    own = environment.get("NCCL_CONF_FILE") or os.path.join(environment.get("HOME", "/nowhere"), ".nccl.conf")
    found: Dict[str, Tuple[str, str]] = {}
    for path in (own, "/etc/nccl.conf"):
        try:
            lines = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for match in filter(None, map(_LINE.match, lines)):
            found.setdefault(match[1], (match[2], path))
    return found


def setting(name: str, environment: Mapping[str, str]) -> Optional[Tuple[str, str]]:
    """A variable of NCCL: its value, and how to speak of it."""
    if name in environment:
        return environment[name], f"{name}={environment[name]}"
    value = read_conf(environment).get(name)
    return (value[0], f"{name}={value[0]} in {value[1]}") if value else None


def _names_us(word: str, kind: str) -> bool:
    return word == "sdp4bit" or os.path.basename(word) == f"libnccl-{kind}-sdp4bit.so"


def _check_own_plugin(kind: str, word: str, said: str, library: pathlib.Path, loader: Loader, diagnosis: Diagnosis) -> None:
    """NCCL itself says only with NCCL_DEBUG=INFO that it did not find a plugin."""
    file = f"libnccl-{kind}-sdp4bit.so"
    found = word if "/" in word and os.path.isfile(word) else loader.find(file if "/" not in word else word)
    if found:
        diagnosis.add(OK, "plugin", f"{said}: NCCL will find {found}")
    else:
        beside = library.resolve().parent / file
        todo = (f"add {beside.parent} to LD_LIBRARY_PATH" if beside.is_file() else
                f"install {file}, which belongs beside the library, and add its folder to LD_LIBRARY_PATH")
        diagnosis.add(WARN, "plugin", f"{said}, and no {file} is found: NCCL will go on without it, silently", todo)


def check_plugins(environment: Mapping[str, str], library: pathlib.Path, loader: Loader,
                  version: Optional[Tuple[int, int, int]], diagnosis: Diagnosis) -> Dict[str, str]:
    """Says what the variables mean; returns why a plugin's place is taken, by its kind."""
    taken: Dict[str, str] = {}
    for variable, kind in _PLUGINS.items():
        found = setting(variable, environment)
        words = [word for word in found[0].split(",") if word] if found else []
        if not found or not words or words == ["none"]:
            continue
        said = found[1]
        ours = [word for word in words if _names_us(word, kind)]
        if not ours:
            taken[kind] = said
            diagnosis.add(NOTE, "plugin", f"{said}: another {kind} plugin has the place that sdp4bit could be loaded from",
                          "nothing: preloading is not touched by it")
            continue
        if kind == "net" and not _names_us(words[0], kind):
            diagnosis.add(WARN, "plugin", f"{said}: NCCL stops at the first plugin that has devices, before sdp4bit",
                          "name sdp4bit first")
        if kind == "net" and len(words) > 1 and version and version < (2, 27, 0):
            diagnosis.add(WARN, "plugin", f"{said}: NCCL {version[0]}.{version[1]} takes one plugin, not a list",
                          "preload, or use NCCL_PROFILER_PLUGIN=sdp4bit (from 2.23)")
        _check_own_plugin(kind, ours[0], said, library, loader, diagnosis)
    site = loader.find("libnccl-net.so")
    if site and "net" not in taken:
        taken["net"] = f"the site's net plugin, {site}"
        asked = setting("NCCL_NET_PLUGIN", environment)
        if asked and [word for word in asked[0].split(",") if _names_us(word, "net")] and "," not in asked[0]:
            diagnosis.add(WARN, "plugin", f"{asked[1]} keeps NCCL from the site's net plugin, {site}; sdp4bit refuses that",
                          "preload instead, or write NCCL_NET_PLUGIN=sdp4bit,libnccl-net.so (from NCCL 2.27)")
        else:
            diagnosis.add(NOTE, "plugin", f"the site has a net plugin, {site}", "nothing: preloading is not touched by it")
    for variable in _HARMLESS:
        found = setting(variable, environment)
        if found:
            diagnosis.add(NOTE, "plugin", f"{found[1]} does not touch sdp4bit")
    return taken


def check_switches(environment: Mapping[str, str], wrong: Sequence[str], diagnosis: Diagnosis) -> None:
    """SDP4BIT_* that would be refused, and what makes communicators stay native."""
    for line in wrong:
        diagnosis.add(WARN, "options", line, "correct or unset it; `sdp4bit options` shows all")
    if environment.get("SDP4BIT_ENABLE") == "0":
        diagnosis.add(WARN, "options", "SDP4BIT_ENABLE=0: every call goes to NCCL untouched", "unset it")
    for name, value in (("TORCH_NCCL_USE_COMM_NONBLOCKING", "1"), ("NCCL_COMM_BLOCKING", "0")):
        found = setting(name, environment)
        if found and found[0] == value:
            diagnosis.add(WARN, "options", f"{found[1]}: communicators in non-blocking mode stay native", "unset it")
    if environment.get("LD_AUDIT"):
        diagnosis.add(WARN, "preload", f"LD_AUDIT={environment['LD_AUDIT']} may send NCCL's calls elsewhere",
                      "unset it, or run this doctor as `sdp4bit doctor -- COMMAND`, which sees where they lead")


def check_preloads(environment: Mapping[str, str], library: pathlib.Path, loader: Loader, diagnosis: Diagnosis) -> None:
    """What LD_PRELOAD holds already."""
    words = split_preload(environment.get("LD_PRELOAD", ""))
    missing, others, behind = [], [], False
    for word in words:
        path = loader.find(word)
        if path is None:
            missing.append(word)
            continue
        if os.path.basename(path).startswith("libsdp4bit.so"):
            behind = True  # another one is refused before this
            continue
        if not defines(path, "ncclAllGather"):
            continue
        if is_nccl(path):
            if not behind:
                diagnosis.add(WARN, "preload", f"LD_PRELOAD holds an NCCL, {path}: it must come behind sdp4bit, or it is called first",
                              f"LD_PRELOAD={library}:{path}; `sdp4bit run` does that")
        elif behind:
            diagnosis.add(WARN, "preload", f"{path} also takes NCCL's calls, and stands behind sdp4bit: it is bypassed",
                          "name it before sdp4bit")
        else:
            others.append(path)
    if missing:
        diagnosis.add(WARN, "preload", f"LD_PRELOAD names files that are not found: {listed(missing)}; the loader says so in "
                      "every process", "take them out")
    if others:
        diagnosis.add(NOTE, "preload", f"{listed(others)} takes NCCL's calls before sdp4bit and has to pass them on",
                      "`sdp4bit run` keeps it in front")
    if behind and not missing:
        diagnosis.add(OK, "preload", "LD_PRELOAD holds the library already")

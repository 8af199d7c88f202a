"""A Python interpreter: where its packages are, and which files of theirs may bring or call NCCL."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import List, Optional, Sequence

_ASK = "import sys, json; print(json.dumps([sys.executable, sys.version.split()[0], sys.path]))"


@dataclass(frozen=True)
class Interpreter:
    """What it says of itself, or what its folder shows where it cannot be run here."""

    path: str
    version: str
    folders: List[str]


def looks_like_python(path: str) -> bool:
    """By its name, as people and shims call it."""
    return re.fullmatch(r"(python|pypy)[0-9.]*", os.path.basename(path)) is not None


def ask(path: str) -> Optional[Interpreter]:
    """Runs it for a moment; where that cannot be, looks for lib/python3*/site-packages beside it."""
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        answer = subprocess.run([path, "-c", _ASK], env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=30, check=False)
        executable, version, folders = json.loads(answer.stdout)
        return Interpreter(executable or path, version, [folder for folder in folders if folder])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        pass
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    folders = sorted(glob.glob(os.path.join(glob.escape(prefix), "lib", "python3*", "*-packages")))
    return Interpreter(path, "", folders) if folders else None


@dataclass(frozen=True)
class Framework:
    """One that was found: `files` call NCCL or bring it."""

    name: str
    files: List[str]
    is_cpu_only: bool = False


# Where the wheels and distributions of each keep what calls NCCL. The first that is found is what most jobs use.
_PLACES = (
    ("PyTorch", ("torch/lib/libtorch_cuda*.so",), "torch/lib/libtorch_cpu*.so*"),
    ("Transformer Engine", ("transformer_engine/*.so", "transformer_engine_torch*.so"), None),
    ("CuPy", ("cupy_backends/cuda/libs/nccl*.so",), None),
    ("JAX", ("jax_plugins/*/xla_cuda_plugin.so", "jaxlib/xla_extension*.so", "jaxlib/libjax_common.so"), None),
    ("TensorFlow", ("tensorflow/libtensorflow_cc.so.*", "tensorflow/python/_pywrap_tensorflow_internal.so"), None),
    ("MXNet", ("mxnet/libmxnet.so",), None),
    ("PaddlePaddle", ("paddle/libs/libpaddle.so", "paddle/base/libpaddle.so"), None),
)


def find_frameworks(folders: Sequence[str]) -> List[Framework]:
    """In sys.path's order; a name once, where it is found first."""
    found: List[Framework] = []
    for name, patterns, cpu in _PLACES:
        for folder in folders:
            files = [file for pattern in patterns for file in sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))]
            if files:
                found.append(Framework(name, files))
                break
            if cpu and (glob.glob(os.path.join(glob.escape(folder), cpu)) or os.path.isdir(os.path.join(folder, cpu.split("/")[0], "lib"))):
                found.append(Framework(name, [], is_cpu_only=True))
                break
    return found


def default_interpreter() -> Optional[str]:
    """The first Python of PATH, an active virtual environment's say, if it has a framework that calls NCCL."""
    for name in ("python", "python3"):
        path = shutil.which(name)
        interpreter = ask(path) if path else None
        if path and interpreter and any(each.files for each in find_frameworks(interpreter.folders)):
            return path
    return None


def find_wheel(folders: Sequence[str]) -> Optional[str]:
    """The NCCL of the wheels nvidia-nccl-cu*."""
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", "libnccl.so.2"))):
            return path
    return None

"""Compiles the kernels' sources for an architecture and disassembles them, with NVIDIA's tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, Optional

from .listing import Kernel, parse

ROOT = Path(__file__).resolve().parents[3]


class ToolError(Exception):
    """A tool that is missing or that failed, with what to do."""


def find_tool(name: str) -> Optional[Path]:
    """On PATH, in CUDA_HOME, in the usual place, or where scripts/lib/setup.sh puts it."""
    found = shutil.which(name)
    if found:
        return Path(found)
    brought = [str(ROOT / "build" / folder / "nvidia/cu13") for folder in ("toolkit", "sass")]
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", *brought]
    for home in homes:
        candidate = Path(home) / "bin" / name
        if home and candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    return None


def _run(command: List[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolError(f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def device_options() -> List[str]:
    """The options that cmake/compile_options.cmake gives nvcc, without those for the host's compiler."""
    text = (ROOT / "cmake/compile_options.cmake").read_text(encoding="utf-8")
    found = re.search(r"COMPILE_LANGUAGE:CUDA>:(--fmad[^>]*)>", text)
    if not found:
        raise ToolError("cmake/compile_options.cmake names no options for CUDA")
    return [option for option in found[1].split() if not option.startswith("-Xcompiler")]


def compile_source(nvcc: Path, source: str, architecture: int, folder: Path) -> Path:
    """The cubin of kernels/SOURCE.cu; ccache is used where it is."""
    target = folder / f"{source}.sm_{architecture}.cubin"
    launcher = [found] if (found := shutil.which("ccache")) else []
    _run(
        launcher
        + [str(nvcc), *device_options(), "--std=c++20", "-O3", f"-arch=sm_{architecture}", "-cubin"]
        + [f"-I{ROOT}", "-o", str(target), str(ROOT / "kernels" / f"{source}.cu")]
    )
    return target


def disassemble(nvdisasm: Path, cubin: Path) -> Dict[str, Kernel]:
    return parse(_run([str(nvdisasm), str(cubin)]))

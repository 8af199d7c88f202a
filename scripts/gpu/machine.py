"""What the result says about the machine: GPUs, driver, versions, commit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Dict, List, Optional

ROOT = Path(__file__).resolve().parents[2]


def _output(command: List[str]) -> Optional[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def gpus(emulated: bool) -> List[Dict[str, str]]:
    if emulated:
        return [{"name": "emulated"}]
    fields = ("name", "driver_version", "compute_cap", "memory.total", "clocks.max.sm", "clocks.max.memory")
    text = _output(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"])
    return [dict(zip(fields, (value.strip() for value in line.split(",")))) for line in (text or "").splitlines()]


def versions(build: Path) -> Dict[str, Optional[str]]:
    cache = build / "CMakeCache.txt"
    text = cache.read_text(encoding="utf-8") if cache.is_file() else ""

    def cached(name: str) -> Optional[str]:
        found = re.search(rf"^{name}:\w+=(.*)$", text, re.MULTILINE)
        return found[1] if found else None

    nvcc = _output([cached("CMAKE_CUDA_COMPILER") or "nvcc", "--version"])
    release = re.search(r"release ([\d.]+)", nvcc or "")
    return {
        "commit": _output(["git", "describe", "--always", "--dirty"]),
        "nvcc": release[1] if release else None,
        "architectures": cached("CMAKE_CUDA_ARCHITECTURES"),
        "kernel": _output(["uname", "-sr"]),
    }

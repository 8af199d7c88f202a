"""This machine: driver and GPUs against what the library was built for, glibc, and limits that containers set."""

from __future__ import annotations

import json
import os
import pathlib
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from ..elf import ElfFile
from .finding import FAIL, NOTE, OK, WARN, Diagnosis, listed

KERNEL_MODULE = "/proc/driver/nvidia/version"
_ASK = """import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
version = ctypes.c_int()
cuda.cuDriverGetVersion(ctypes.byref(version))
answer = {"version": version.value, "code": cuda.cuInit(0), "devices": []}
count = ctypes.c_int()
if answer["code"] == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
    for i in range(count.value):
        name, device, numbers = ctypes.create_string_buffer(128), ctypes.c_int(), [ctypes.c_int(), ctypes.c_int()]
        cuda.cuDeviceGet(ctypes.byref(device), i)
        cuda.cuDeviceGetName(name, 128, device)
        for number, attribute in zip(numbers, (75, 76)):
            cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        answer["devices"].append([name.value.decode(), numbers[0].value, numbers[1].value])
print(json.dumps(answer))"""


@dataclass(frozen=True)
class Driver:
    """What libcuda says. `code` is cuInit's: 0 is success, 100 no device."""

    version: int
    code: int
    devices: List[Tuple[str, int, int]]


def ask_driver() -> Optional[Driver]:
    """In a process of its own: a driver that hangs or crashes must not take the doctor along."""
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        answer = subprocess.run([sys.executable, "-c", _ASK], env=clean, capture_output=True, text=True, timeout=30, check=False)
        said = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Driver(said["version"], said["code"], [(name, major, minor) for name, major, minor in said["devices"]])


def kernel_module_version(path: str = KERNEL_MODULE) -> Optional[str]:
    """The version of NVIDIA's kernel module, "580.65.06"."""
    try:
        match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", pathlib.Path(path).read_text(encoding="ascii", errors="replace"))
    except OSError:
        return None
    return match[1] if match else None


def runs_on(architectures: str, major: int, minor: int) -> bool:
    """Whether code for that list, as CMAKE_CUDA_ARCHITECTURES has it, runs on compute capability major.minor."""
    for word in architectures.split(","):
        match = re.fullmatch(r"(\d+)(\d)([af]?)(-real|-virtual)?", word.strip())
        if not match:
            continue
        own = (int(match[1]), int(match[2]))
        is_exact, form = bool(match[3]), match[4]
        if form != "-virtual" and own[0] == major and (own[1] == minor if is_exact else own[1] <= minor):
            return True
        if form != "-real" and not is_exact and own <= (major, minor):  # compiled by the driver
            return True
    return False


def check_driver(facts: Dict[str, str], driver: Optional[Driver], module: Optional[str], diagnosis: Diagnosis) -> None:
    """The driver must know the library's major version of CUDA, and each GPU one of its architectures."""
    cuda = int(facts.get("cuda_runtime", "0"))
    wanted = f"CUDA {cuda // 1000}.{cuda // 10 % 100}"
    oldest = int(facts.get("oldest_driver", "0"))
    needed = f"driver {oldest} or later" if oldest else f"a driver for CUDA {cuda // 1000} or later"
    if driver is None:
        if module is None:
            diagnosis.add(NOTE, "driver", f"no NVIDIA driver on this machine: driver and GPUs are not checked (the library is built for "
                          f"{wanted}, which needs {needed})",
                          "run this on a machine with GPUs too")
        else:
            diagnosis.add(FAIL, "driver", f"the kernel has NVIDIA's driver {module}, but libcuda.so.1 does not load here",
                          "start the container with NVIDIA's runtime (--gpus all), or repair the driver's libraries")
        return
    name = f"driver {module}, " if module else "the driver, "
    if driver.version // 1000 < cuda // 1000:
        diagnosis.add(FAIL, "driver", f"{name}for CUDA {driver.version // 1000}.{driver.version // 10 % 100}, is too old: the "
                      f"library is built for {wanted}, which needs {needed}",
                      f"install {needed}, or NVIDIA's package cuda-compat, or build the library with CUDA "
                      f"{driver.version // 1000} (docs/install.md)")
    elif driver.code != 0:
        diagnosis.add(WARN, "driver", f"{name}does not start (cuInit says {driver.code}): GPUs are not checked",
                      "run this where the job would run; nvidia-smi says more")
    else:
        diagnosis.add(OK, "driver", f"{name}takes {wanted}, which needs {needed}")
    names: Dict[Tuple[str, int, int], int] = {}
    for device in driver.devices:
        names[device] = names.get(device, 0) + 1
    for (device_name, major, minor), count in names.items():
        text = f"{count} x {device_name}, compute capability {major}.{minor}"
        if runs_on(facts.get("architectures", ""), major, minor):
            diagnosis.add(OK, "gpu", text)
        else:
            diagnosis.add(FAIL, "gpu", f"{text}: the library has code for {facts.get('architectures')} only",
                          f"build it with -DCMAKE_CUDA_ARCHITECTURES={major}{minor}")


def _glibc(text: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def check_glibc(library: str, diagnosis: Diagnosis) -> None:
    """The library's newest GLIBC_ version against this system's."""
    with ElfFile(library) as elf:
        versions = [name for name in elf.needed_versions().get("libc.so.6", ()) if re.fullmatch(r"GLIBC_[\d.]+", name)]
    needed = max(versions, key=_glibc, default="GLIBC_2.0")
    try:
        have = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        have = ""
    if not have:
        diagnosis.add(FAIL, "glibc", "this system's C library is not glibc", "use a system or an image with glibc")
    elif _glibc(have) < _glibc(needed):
        diagnosis.add(FAIL, "glibc", f"{have} is older than the library needs ({needed}): the loader would ignore it",
                      "build the library on a system as old as this one")
    else:
        diagnosis.add(OK, "glibc", f"{have}; needed is {needed}")


def check_limits(diagnosis: Diagnosis) -> None:
    """Limits that make NCCL fail, with the library or without; they are mostly a container's."""
    found: List[Tuple[str, str]] = []
    is_container = any(os.path.exists(path) for path in ("/.dockerenv", "/run/.containerenv")) or "container" in os.environ
    try:
        shared = os.statvfs("/dev/shm")
        size, free = shared.f_blocks * shared.f_frsize, shared.f_bavail * shared.f_frsize
        if size < 1 << 30 or free < 1 << 28:
            found.append((f"/dev/shm has {free >> 20} of {size >> 20} MiB free; NCCL's ranks of a node share memory there",
                          "give it 1 GiB or more: docker run --shm-size=8g or --ipc=host, an emptyDir with medium Memory in Kubernetes"))
    except OSError:
        found.append(("there is no /dev/shm; NCCL's ranks of a node share memory there", "mount a tmpfs on it"))
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband") and 0 <= locked < 1 << 30:
        found.append((f"locked memory is limited to {locked >> 10} KiB (ulimit -l), and InfiniBand needs more",
                      "docker run --ulimit memlock=-1, or LimitMEMLOCK=infinity for the service that starts jobs"))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= files < 1024:
        found.append((f"open files are limited to {files} (ulimit -n)", "raise it to 65536"))
    for text, todo in found:
        diagnosis.add(WARN, "limits", text, todo)
    if not found:
        diagnosis.add(OK, "limits", "shared memory, locked memory and open files are enough" + (", in a container" if is_container else ""))
    _note_guards(diagnosis)


def _note_guards(diagnosis: Diagnosis) -> None:
    """What only the plugin's way minds: it changes pages that were made read-only."""
    guards = []
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        if re.search(r"^Seccomp:\s*2", status, re.MULTILINE):
            guards.append("a seccomp filter")
        if pathlib.Path("/sys/fs/selinux/enforce").read_text(encoding="ascii") == "1":
            guards.append("SELinux")
    except OSError:
        pass
    if guards:
        diagnosis.add(NOTE, "limits", f"{listed(guards)} may forbid what the plugin's way needs (mprotect); preloading needs nothing")

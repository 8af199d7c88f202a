"""Gets nccl.h of NVIDIA's wheels on PyPI: FOLDER/WHEEL/nccl.h, with the checksums of both beside it."""

from __future__ import annotations

import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from typing import List, Tuple

PACKAGES = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")
_SUMS = "SHA256SUMS"


class NotReachable(Exception):
    """PyPI does not answer, or does not have the wheel."""


def _pip(*words: str) -> str:
    command = [sys.executable, "-m", "pip", *words, "--disable-pip-version-check"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise NotReachable(answer.stderr.strip()[-600:])
    return answer.stdout


def number(version: str) -> Tuple[int, ...]:
    """2.26.2.post1 is (2, 26, 2, 1)."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def releases(package: str) -> List[str]:
    """All of them on PyPI, the oldest first."""
    found = re.search(r"^Available versions: (.*)$", _pip("index", "versions", package), re.MULTILINE)
    if not found:
        raise NotReachable(f"pip lists no versions of {package}")
    return sorted(found[1].replace(" ", "").split(","), key=number)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _kept(folder: pathlib.Path, package: str, version: str) -> List[pathlib.Path]:
    """Folders of that wheel whose header is as it came."""
    good = []
    for place in folder.glob(f"{package.replace('-', '_')}-{version}-*"):
        try:
            sums = dict(reversed(line.split("  ", 1)) for line in (place / _SUMS).read_text(encoding="ascii").splitlines())
            if sums["nccl.h"] == _sum((place / "nccl.h").read_bytes()):
                good.append(place)
        except (OSError, KeyError, ValueError):
            continue
    return good


def fetch(folder: pathlib.Path, package: str, version: str) -> pathlib.Path:
    """The folder that holds nccl.h of one release; the wheel itself, some 300 MB, is not kept."""
    for place in _kept(folder, package, version):
        return place
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as downloads:
        _pip("download", "-q", "--no-deps", "--only-binary", ":all:", "--dest", downloads, f"{package}=={version}")
        (wheel,) = pathlib.Path(downloads).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = [name for name in archive.namelist() if name.endswith("/include/nccl.h")]
            header = archive.read(member)
        wheel_sum = hashlib.sha256()
        with wheel.open("rb") as file:
            while block := file.read(1 << 20):
                wheel_sum.update(block)
        place = folder / wheel.stem
        place.mkdir(exist_ok=True)
        (place / "nccl.h").write_bytes(header)
        (place / _SUMS).write_text(f"{_sum(header)}  nccl.h\n{wheel_sum.hexdigest()}  {wheel.name}\n", encoding="ascii")
    return place

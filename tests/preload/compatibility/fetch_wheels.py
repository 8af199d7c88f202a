"""Gets releases of NCCL from PyPI: of each wheel only libnccl.so.2 and nccl.h stay, in FOLDER/VERSION."""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

WANTED = ("libnccl.so.2", "nccl.h")


class NotReachable(Exception):
    """PyPI does not answer, or does not have the wheel."""


def newest(package):
    """The newest release on PyPI, as text."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed", "--report", "-", "-q", package]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise NotReachable(answer.stderr.strip())
    import json

    return json.loads(answer.stdout)["install"][0]["metadata"]["version"]


def fetch(folder, package, version):
    """The folder that holds the two files of one release."""
    target = pathlib.Path(folder) / version
    if all((target / name).exists() for name in WANTED):
        return target
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as downloads:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--dest", downloads]
        answer = subprocess.run([*command, f"{package}=={version}"], capture_output=True, text=True)
        if answer.returncode != 0:
            raise NotReachable(answer.stderr.strip())
        (wheel,) = pathlib.Path(downloads).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                name = pathlib.PurePosixPath(member).name
                if name in WANTED:
                    (target / name).write_bytes(archive.read(member))
    return target

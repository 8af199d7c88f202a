#!/usr/bin/env python3
"""Starts the ranks of train.py as a launcher does, one process each, on the emulated cluster.

  ranks.py [--build DIR] [--nodes N] [--ranks-per-node L] -- [ARGUMENTS OF train.py]

A library named by LD_PRELOAD is preloaded into every rank.
"""
from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent


def environment(libraries: Path, identifier: Path, rank: int, nodes: int, per_node: int) -> dict[str, str]:
    """What torchrun would set, and which node this rank plays."""
    folders = [str(libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(nodes * per_node),
        "LOCAL_RANK": str(rank % per_node),
        "LOCAL_WORLD_SIZE": str(per_node),
        "NCCL_HOSTID": f"node{rank // per_node}",
        "NCCL_ID_FILE": str(identifier),
        "SANDBOX_DEVICES": str(per_node),
        "LD_LIBRARY_PATH": ":".join(folders),
        "OMP_NUM_THREADS": "1",
    }


def wait_for_all(ranks: list[subprocess.Popen[bytes]]) -> int:
    """The first failure ends the others: they would wait for the one that is gone."""
    waiting = {rank.pid: rank for rank in ranks}
    while waiting:
        pid, status = os.wait()
        if pid not in waiting:
            continue
        code = os.waitstatus_to_exitcode(status)
        waiting.pop(pid).returncode = code
        if code != 0:
            for rank in waiting.values():
                rank.terminate()
            for rank in waiting.values():
                rank.wait()
            return code if code > 0 else 1
    return 0


class Arguments(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"ranks.py: {message}; --help shows what there is\n")


def main() -> int:
    parser = Arguments(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build" / "dev", metavar="DIR")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--ranks-per-node", type=int, default=2)
    parser.add_argument("rest", nargs="*", metavar="-- ARGUMENTS OF train.py")
    arguments = parser.parse_args()
    if min(arguments.nodes, arguments.ranks_per_node) < 1:
        parser.error(f"--nodes {arguments.nodes}, --ranks-per-node {arguments.ranks_per_node}: each must be at least 1")
    libraries = arguments.build.resolve() / "sandbox" / "lib"
    if not (libraries / "libnccl.so.2").exists():
        print(f"ranks.py: no {libraries}/libnccl.so.2: build it by scripts/demo.sh, or name the build by --build", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    ranks: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rank in range(arguments.nodes * arguments.ranks_per_node):
                ranks.append(
                    subprocess.Popen(
                        [sys.executable, str(HERE / "train.py"), *arguments.rest],
                        env=environment(libraries, Path(folder) / "id", rank, arguments.nodes, arguments.ranks_per_node),
                    )
                )
            return wait_for_all(ranks)
        except KeyboardInterrupt:
            return 130
        finally:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
                    process.wait()


if __name__ == "__main__":
    sys.exit(main())

"""Jobs whose ranks are programs of their own, one of them disturbed: another library or none, a full disk, a closed log, a fork,
a signal, or no call any more. All ranks that are left finish right or end with an error, in bounded time."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import BinaryIO, Callable, Optional

NODES, LOCAL_RANKS = 2, 2
RANKS = NODES * LOCAL_RANKS
LONGEST = 150  # seconds; NCCL's own time limit on the emulated cluster is 6


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str  # of scripts/reliability/page.py
    who: int
    words: tuple[str, ...] = ()  # disturbance and step
    library: Optional[str] = None  # of that rank; "": none
    stderr: str = ""  # instead of a file: "full" or "closed"
    limit: Optional[int] = None  # bytes of a file
    ends: tuple[int, ...] = (0,)  # codes with which that rank may end; below zero: by that signal
    says: str = ""  # what some rank's log has
    all_right: bool = False  # nobody else may notice


def faults(other_version: str, long: bool) -> list[Fault]:
    quick = [
        Fault("version", 3, library=other_version, all_right=True, says="wire version"),
        Fault("without", 1, library="", ends=(0, 3)),
        Fault("disk", 2, limit=0, all_right=True, says="cannot write"),
        Fault("line", 0, stderr="full", all_right=True),
        Fault("absent", 2, ("absent", "12"), ends=(-9,)),
        Fault("fork", 0, ("fork", "12"), all_right=True),
        Fault("term", 1, ("term", "12"), ends=(-15,)),
        Fault("crash", 2, ("crash", "2"), ends=(42,)),
        Fault("signal", 3, ("signal", "0"), all_right=True),
    ]
    if not long:
        return quick
    every = list(quick)
    for who in range(RANKS):
        every += [
            Fault("version", who, library=other_version, all_right=True, says="wire version"),
            Fault("without", who, library="", ends=(0, 3)),
            Fault("line", who, stderr="full", all_right=True),
            Fault("line", who, stderr="closed", all_right=True),
            Fault("signal", who, ("signal", "0"), all_right=True),
        ]
        if who > 0:  # rank 0 itself makes files: the id, and the emulated cluster's shared memory
            every += [Fault("disk", who, limit=limit, all_right=True, says="cannot write") for limit in (0, 100, 4000)]
        for step in ("1", "2", "5", "19"):
            every.append(Fault("absent", who, ("absent", step), ends=(-9,)))
            every.append(Fault("term", who, ("term", step), ends=(-15,)))
            every.append(Fault("crash", who, ("crash", step), ends=(42,)))
        every += [Fault("fork", who, ("fork", step), all_right=True) for step in ("0", "1", "3", "19")]
    return every


def prepare(fault: Fault) -> Callable[[], None]:
    def run() -> None:  # in the child, before the program
        if fault.limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (fault.limit, fault.limit))

    return run


def environment_of(fault: Fault, rank: int, library: str, folder: pathlib.Path) -> dict[str, str]:
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("SDP4BIT_", "LD_PRELOAD"))}
    environment.update(
        RANK=str(rank),
        NCCL_HOSTID=f"node{rank // LOCAL_RANKS}",
        SDP4BIT_COMMS="all",
        SDP4BIT_MIN_BYTES="0",
        SDP4BIT_OWN_SHARD="replica",
        SDP4BIT_WATCHDOG="2",
        SDP4BIT_LOG="info",
        SDP4BIT_STATS=str(folder / "%r.json"),
        SANDBOX_NCCL_TIMEOUT="6",
    )
    preloaded = fault.library if rank == fault.who and fault.library is not None else library
    if preloaded:
        environment["LD_PRELOAD"] = preloaded
    return environment


def log_of(fault: Fault, rank: int, folder: pathlib.Path, copiers: list[threading.Thread]) -> BinaryIO:
    """The stderr of a rank; what can be read of it is in RANK.log, written by the rank or by a copier that is yet to start."""
    path = folder / f"{rank}.log"
    if rank == fault.who and fault.stderr == "full":
        return open("/dev/full", "wb")
    if rank == fault.who and fault.stderr == "closed":
        reader, writer = os.pipe()
        os.close(reader)
        return os.fdopen(writer, "wb")
    if rank == fault.who and fault.limit is not None:
        # The limit would hold for a file of the log too, and this is about statistics: this process writes it.
        reader, writer = os.pipe()
        copiers.append(threading.Thread(target=copy, args=(reader, path)))
        return os.fdopen(writer, "wb")
    return open(path, "wb")


def copy(reader: int, path: pathlib.Path) -> None:
    """All the time that the rank runs: behind a pipe that is full it would wait."""
    with os.fdopen(reader, "rb") as source, open(path, "wb") as target:
        shutil.copyfileobj(source, target)


def wait_for(processes: list[subprocess.Popen[bytes]]) -> None:
    """Until all have ended, or they had time enough."""
    end = time.monotonic() + LONGEST
    for process in processes:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass


def run_ranks(program: str, library: str, fault: Fault, folder: pathlib.Path) -> tuple[list[int], list[str], list[str]]:
    """Codes, outputs and logs of all ranks. A rank that never calls is killed once the others have ended."""
    processes: list[subprocess.Popen[bytes]] = []
    copiers: list[threading.Thread] = []
    for rank in range(RANKS):
        disturbed = rank == fault.who
        with log_of(fault, rank, folder, copiers) as log:
            processes.append(
                subprocess.Popen(
                    [program, str(rank), str(RANKS), str(folder / "id"), *(fault.words if disturbed else ())],
                    env=environment_of(fault, rank, library, folder),
                    stdout=subprocess.PIPE,
                    stderr=log,
                    preexec_fn=prepare(fault) if disturbed else None,
                )
            )
    for copier in copiers:  # not before: a process that is forked beside a thread may run little of Python
        copier.start()
    waits = [rank for rank in range(RANKS) if not (rank == fault.who and fault.kind == "absent")]
    wait_for([processes[rank] for rank in waits])
    hung = [rank for rank in waits if processes[rank].poll() is None]
    for process in processes:
        process.kill()
    outputs = [process.communicate()[0].decode(errors="replace") for process in processes]
    for copier in copiers:
        copier.join()
    logs = [path.read_text(errors="replace") if path.exists() else "" for path in (folder / f"{rank}.log" for rank in range(RANKS))]
    if hung:
        raise SystemExit(f"{fault}: ranks {hung} hung\n" + "\n".join(logs))
    return [process.returncode for process in processes], outputs, logs


def judge(fault: Fault, codes: list[int], outputs: list[str], logs: list[str]) -> bool:
    """Whether all ranks finished right; ends the test where what must not be has come."""
    story = "\n".join(f"rank {rank}: {codes[rank]} {outputs[rank]}{logs[rank]}" for rank in range(RANKS))
    for rank, code in enumerate(codes):
        allowed = fault.ends if rank == fault.who else ((0,) if fault.all_right else (0, 3))
        if code not in allowed or "WRONG" in outputs[rank]:
            raise SystemExit(f"{fault}: rank {rank} ended with {code}\n{story}")
    if fault.says and not any(fault.says in log for log in logs):
        raise SystemExit(f"{fault}: no log says {fault.says!r}\n{story}")
    if any(log.count("cannot write") > 1 for log in logs):
        raise SystemExit(f"{fault}: a line is said more than once\n{story}")
    return all(code == 0 for code in codes)


def main() -> int:
    program, library, other_version, long = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "long"
    counts: dict[str, dict[str, int]] = {}
    for fault in faults(other_version, long):
        with tempfile.TemporaryDirectory() as folder:
            right = judge(fault, *run_ranks(program, library, fault, pathlib.Path(folder)))
        count = counts.setdefault(fault.kind, {"injected": 0, "finished_right": 0, "ended_with_errors": 0})
        count["injected"] += 1
        count["finished_right" if right else "ended_with_errors"] += 1
        print(f"{fault}: {'right' if right else 'errors'}", file=sys.stderr, flush=True)
    injected = sum(count["injected"] for count in counts.values())
    name = "disturbed jobs" if long else "disturbed jobs, sampled"
    print(json.dumps({"faults": name, "injected": injected, "by_kind": counts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

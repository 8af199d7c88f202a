"""The programs that measure, and the lines that start them: alone, by mpirun, torchrun or srun."""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
from dataclasses import dataclass, field
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from .errors import UserError
from .units import show_size

LAUNCHERS = ("mpirun", "torchrun", "srun")


def _package_root() -> pathlib.Path:
    """The installed prefix, or the source tree."""
    package = pathlib.Path(__file__).resolve().parent
    return package.parents[2] if package.parts[-3:-1] == ("share", "sdp4bit") else package.parents[1]


def _newest(paths: Iterable[pathlib.Path]) -> Optional[pathlib.Path]:
    return max((path for path in paths if path.is_file()), key=lambda path: path.stat().st_mtime, default=None)


@dataclass
class Programs:
    """What measures, and the library that is preloaded into it."""

    kind: str  # collectives or nccl-tests
    paths: Dict[str, pathlib.Path]  # by collective
    library: pathlib.Path


def _emulators() -> Iterator[Tuple[pathlib.Path, pathlib.Path]]:
    """Program and library of the emulated cluster: where its package is installed, and in the source tree's builds."""
    root = _package_root()
    for libraries in ("lib", "lib64", f"lib/{os.uname().machine}-linux-gnu"):
        folder = root / libraries / "sdp4bit" / "emulator"
        yield folder / "collectives", folder / "libsdp4bit.so"
    built = _newest(root.glob("build/*/sandbox/bin/collectives"))
    if built:
        yield built, built.parents[1] / "lib" / "libsdp4bit.so"


def emulated_programs() -> Programs:
    """What plays a cluster on a CPU."""
    for program, library in _emulators():
        if program.is_file() and library.is_file():
            return Programs("collectives", dict.fromkeys(("reduce_scatter", "all_gather"), program), library)
    raise UserError(
        "the emulated cluster is neither installed (package sdp4bit-emulator) nor built: in the source tree run"
        " scripts/demo.sh, or cmake --build build/dev --target collectives_sandbox sdp4bit_sandbox"
    )


def _beside() -> Iterator[pathlib.Path]:
    root = _package_root()
    yield from (
        root / "bin" / "sdp4bit-collectives",
        root / "libexec" / "sdp4bit" / "collectives",
        root / "bin" / "collectives",
    )
    built = _newest(root.glob("build/*/bin/collectives"))
    if built:
        yield built


def find_programs(
    collectives: Iterable[str], library: pathlib.Path, given: Optional[str], nccl_tests: Optional[str]
) -> Programs:
    """`collectives`, or nccl-tests' binaries in a folder or on PATH."""
    wanted = list(collectives)
    if given:
        path = pathlib.Path(given)
        if not path.is_file() or not os.access(path, os.X_OK):
            raise UserError(
                f"--program {given}: there is no such program; give the path of `collectives` (built from"
                " bench/collectives)"
            )
        return Programs("collectives", dict.fromkeys(wanted, path.absolute()), library)
    if nccl_tests is None:
        for path in _beside():
            if path.is_file():
                return Programs("collectives", dict.fromkeys(wanted, path), library)
    found = {}
    for collective in wanted:
        name = f"{collective}_perf"
        path = shutil.which(name, path=nccl_tests) if nccl_tests is not None else shutil.which(name)
        if not path:
            where = (
                f"in {nccl_tests}" if nccl_tests is not None else "on PATH, and no `collectives` beside this command"
            )
            raise UserError(
                f"no {name} {where}: give --nccl-tests FOLDER (its build/), --program FILE, or --emulated"
            )
        found[collective] = pathlib.Path(path).absolute()
    return Programs("nccl-tests", found, library)


@dataclass
class Sweep:
    """What is measured."""

    collectives: List[str]
    types: List[str]
    operations: List[str]
    begin: int
    end: int
    factor: int
    iterations: int
    warmup: Optional[int]
    nodes: int
    gpus: int
    repeats: int
    check: bool = True
    launcher_words: Sequence[str] = ()

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus

    def sizes(self) -> List[int]:
        found, size = [], self.begin
        while size <= self.end:
            found.append(size)
            size *= self.factor
        return found


@dataclass
class Run:
    """One start of a program: some sizes of one collective, in one variant."""

    variant: str
    repeat: int
    collective: str
    words: List[str]
    variables: Dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.collective}, {self.variant}, repeat {self.repeat + 1}"


def _calls(sweep: Sweep, collective: str) -> List[str]:
    """An AllGather is sent as differences once the library has seen that its buffer comes again: eight calls or more."""
    warmup = sweep.warmup if sweep.warmup is not None else 40 if collective == "all_gather" else 6
    return ["-w", str(warmup), "-n", str(sweep.iterations)]


def _words_of_collectives(sweep: Sweep, programs: Programs, collective: str, type_name: str) -> List[List[str]]:
    words = [
        str(programs.paths[collective]),
        collective,
        "-b",
        show_size(sweep.begin),
        "-e",
        show_size(sweep.end),
        "-f",
        str(sweep.factor),
        "-d",
        type_name,
        *_calls(sweep, collective),
        "-c",
        str(int(sweep.check)),
        "--format",
        "json",
    ]
    return [words + (["-o", ",".join(sweep.operations)] if collective == "reduce_scatter" else [])]


def _words_of_nccl_tests(sweep: Sweep, programs: Programs, collective: str, type_name: str) -> List[List[str]]:
    """One size a run for AllGather: within a run nccl-tests moves through its buffers, and each place is learned anew.
    -c 0: its check expects exact sums."""
    head = [str(programs.paths[collective]), "-d", type_name, *_calls(sweep, collective), "-c", "0", "-g", "1"]
    if collective == "all_gather":
        return [head + ["-b", show_size(size), "-e", show_size(size)] for size in sweep.sizes()]
    return [
        head + ["-b", show_size(sweep.begin), "-e", show_size(sweep.end), "-f", str(sweep.factor), "-o", operation]
        for operation in sweep.operations
    ]


def make_runs(sweep: Sweep, programs: Programs) -> List[Run]:
    """Pairs: each run with one of the other variant beside it, in turns first, so that drift hits both alike."""
    runs = []
    for repeat in range(sweep.repeats):
        for collective in sweep.collectives:
            for type_name in sweep.types:
                make = _words_of_collectives if programs.kind == "collectives" else _words_of_nccl_tests
                for words in make(sweep, programs, collective, type_name):
                    order = ("native", "sdp4bit") if repeat % 2 == 0 else ("sdp4bit", "native")
                    runs += [
                        Run(
                            variant,
                            repeat,
                            collective,
                            list(words),
                            {"LD_PRELOAD": str(programs.library)} if variant == "sdp4bit" else {},
                        )
                        for variant in order
                    ]
    return runs


def without_library(preloaded: str) -> str:
    """LD_PRELOAD without ours."""
    return ":".join(
        word
        for word in preloaded.replace(" ", ":").split(":")
        if word and "libsdp4bit" not in pathlib.Path(word).name
    )


def environment_of(run: Run, kept: Dict[str, str]) -> Dict[str, str]:
    """For a run started here."""
    variables = dict(kept)
    variables["LD_PRELOAD"] = without_library(kept.get("LD_PRELOAD", ""))
    if "LD_PRELOAD" in run.variables:
        variables["LD_PRELOAD"] = ":".join(filter(None, (variables["LD_PRELOAD"], run.variables["LD_PRELOAD"])))
    if not variables["LD_PRELOAD"]:
        del variables["LD_PRELOAD"]
    return variables


def passed_variables(kept: Dict[str, str]) -> Dict[str, str]:
    """Those of this shell that shape the run and that launchers do not pass on by themselves."""
    return {name: value for name, value in sorted(kept.items()) if name.startswith(("SDP4BIT_", "NCCL_"))}


def launched(
    run: Run, sweep: Sweep, launcher: str, id_file: str, kept: Dict[str, str], endpoint: str = "$HEAD:29500"
) -> List[str]:
    """The run as a launcher's words. `collectives` needs no MPI: its ranks meet by a file that all nodes see."""
    words = run.words + (["--id-file", id_file] if id_file else [])
    variables = {**passed_variables(kept), **run.variables}
    if launcher == "mpirun":
        exported = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        return [
            "mpirun",
            "-np",
            str(sweep.ranks),
            "--map-by",
            f"ppr:{sweep.gpus}:node",
            *sweep.launcher_words,
            *exported,
            *words,
        ]
    inner = ["env", *(f"{name}={value}" for name, value in variables.items())] if variables else []
    if launcher == "srun":
        return [
            "srun",
            f"--nodes={sweep.nodes}",
            f"--ntasks-per-node={sweep.gpus}",
            *sweep.launcher_words,
            *inner,
            *words,
        ]
    # With underscores: torch 1 knows no others, torch 2 both.
    return [
        *inner,
        "torchrun",
        f"--nnodes={sweep.nodes}",
        f"--nproc_per_node={sweep.gpus}",
        "--rdzv_backend=c10d",
        f"--rdzv_endpoint={endpoint}",
        f"--rdzv_id={pathlib.Path(id_file).name or 'sdp4bit'}",
        *sweep.launcher_words,
        "--no_python",
        *words,
    ]


def shell_line(words: List[str]) -> str:
    """For a shell; $HEAD stays a variable."""
    return " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in words)

"""Measures ReduceScatter and AllGather with and without sdp4bit, in pairs, over sizes; writes JSON or CSV.

The measuring program is `collectives`, built with the library, or nccl-tests' reduce_scatter_perf and all_gather_perf.
With --print mpirun, torchrun or srun the lines for a cluster are shown and nothing runs; their outputs are read with
--read. With --launch the same lines are run. Without either, the ranks run on this machine's GPUs, and with
--emulated on the emulated cluster, whose bytes are real and whose times are not. The result is an input of
`sdp4bit report` and `sdp4bit estimate --from`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
from typing import List, Optional, Sequence

from . import units
from .bench_output import engaged_version, parse_output
from .bench_programs import (
    LAUNCHERS,
    Programs,
    Run,
    Sweep,
    emulated_programs,
    environment_of,
    find_programs,
    launched,
    make_runs,
    shell_line,
)
from .bench_results import COLLECTIVES, Pair, Results, pairs, write_results
from .errors import UserError
from .library import add_library_argument, find_library
from .process_group import run_group
from .units import show_bytes, show_size

TYPES = ("bfloat16", "half", "float")
OPERATIONS = ("sum", "avg")
OUTPUT_NAME = re.compile(r"bench-(native|sdp4bit)-(\d+)-(reduce_scatter|all_gather)-\d+\.txt")


def _list(known: Sequence[str]):
    def parse(text: str) -> List[str]:
        words = text.split(",")
        unknown = [word for word in words if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"'{unknown[0]}' is not known: {', '.join(known)} are, separated by commas"
            )
        return words

    return parse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where")
    where.add_argument("--nodes", type=units.count, default=2, metavar="N", help="nodes (2)")
    where.add_argument(
        "--gpus", type=units.count, default=None, metavar="N", help="GPUs, and ranks, of a node (8; emulated: 2)"
    )
    where.add_argument("--emulated", action="store_true", help="on the emulated cluster of the source tree's build")
    where.add_argument("--print", dest="printed", choices=LAUNCHERS, help="show the lines to run on a cluster")
    where.add_argument("--launch", choices=LAUNCHERS, help="run those lines")
    where.add_argument("--read", metavar="FOLDER", help="put the outputs of printed lines together")
    where.add_argument(
        "--shared",
        metavar="FOLDER",
        default=".",
        help="a folder that all nodes see, where ranks of `collectives` meet (.)",
    )
    where.add_argument(
        "--launcher-arguments",
        type=shlex.split,
        default=[],
        metavar="TEXT",
        help="more for the launcher, such as '--hostfile hosts'",
    )
    what = parser.add_argument_group("what")
    what.add_argument("--program", metavar="FILE", help="the `collectives` to use")
    what.add_argument("--nccl-tests", metavar="FOLDER", help="use nccl-tests' binaries in this folder")
    add_library_argument(parser)
    what.add_argument(
        "--collectives",
        type=_list(COLLECTIVES),
        default=list(COLLECTIVES),
        metavar="LIST",
        help="reduce_scatter,all_gather",
    )
    what.add_argument(
        "--types", type=_list(TYPES), default=["bfloat16"], metavar="LIST", help="of bfloat16, half, float (bfloat16)"
    )
    what.add_argument("--ops", type=_list(OPERATIONS), default=["sum"], metavar="LIST", help="of sum, avg (sum)")
    what.add_argument(
        "--begin",
        type=units.size,
        default=None,
        metavar="SIZE",
        help="smallest size of a rank's larger buffer (4M; emulated: 1M)",
    )
    what.add_argument("--end", type=units.size, default=None, metavar="SIZE", help="largest (1G; emulated: 4M)")
    what.add_argument("--factor", type=units.count, default=4, metavar="N", help="between sizes (4)")
    what.add_argument("--repeats", type=units.count, default=None, metavar="N", help="pairs of runs (3; emulated: 1)")
    what.add_argument(
        "--iterations", type=units.count, default=None, metavar="N", help="measured calls of a run (20; emulated: 3)"
    )
    what.add_argument(
        "--warmup",
        type=units.count,
        default=None,
        metavar="N",
        help="calls before those (ReduceScatter 6, AllGather 40)",
    )
    what.add_argument(
        "--check",
        action="store_true",
        help=(
            "measure errors too: exact results are computed on the CPU, which takes long for "
            "large sizes (emulated: always; nccl-tests: never)"
        ),
    )
    what.add_argument("--timeout", type=units.positive, default=600, metavar="SECONDS", help="of one run (600)")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the result, as .json or .csv (default: none, only the table)"
    )


def _sweep(arguments: argparse.Namespace) -> Sweep:
    emulated = arguments.emulated
    modes = [
        f"--{name}"
        for name, given in (
            ("print", arguments.printed),
            ("launch", arguments.launch),
            ("read", arguments.read),
            ("emulated", emulated),
        )
        if given
    ]
    if len(modes) > 1:
        raise UserError(f"{' and '.join(modes)} exclude each other: give one of them")
    if arguments.factor < 2:
        raise UserError("--factor is 1: sizes would not grow; give 2 or more")
    begin = arguments.begin if arguments.begin is not None else (1 << 20 if emulated else 4 << 20)
    end = arguments.end if arguments.end is not None else max(begin, 4 << 20 if emulated else 1 << 30)
    if begin == 0 or end < begin:
        raise UserError(f"--begin {show_size(begin)} --end {show_size(end)}: sizes begin above 0 and do not shrink")
    if arguments.output and pathlib.Path(arguments.output).suffix not in (".json", ".csv"):
        raise UserError(f"-o {arguments.output}: the name should end in .json or .csv")
    if arguments.output and not pathlib.Path(arguments.output).absolute().parent.is_dir():
        raise UserError(f"-o {arguments.output}: there is no such folder")
    return Sweep(
        arguments.collectives,
        arguments.types,
        arguments.ops,
        begin,
        end,
        arguments.factor,
        arguments.iterations or (3 if emulated else 20),
        arguments.warmup,
        arguments.nodes,
        arguments.gpus or (2 if emulated else 8),
        arguments.repeats or (1 if emulated else 3),
        emulated or arguments.check,
        arguments.launcher_arguments,
    )


def print_lines(sweep: Sweep, programs: Programs, launcher: str, shared: str) -> None:
    """A script: all runs, and the line that puts their outputs together."""
    run_id = f"{int(time.time())}"
    print(
        f"# {sweep.ranks} ranks: {sweep.nodes} nodes x {sweep.gpus} GPUs. {programs.kind}:"
        f" {', '.join(sorted({str(p) for p in programs.paths.values()}))}"
    )
    print(
        f"# The library, the program and {pathlib.Path(shared).absolute()} must be there on every node. Run on the"
        " first node"
        + ("; on the others the same lines, with HEAD=its name." if launcher == "torchrun" else ".")
    )
    if launcher == "torchrun":
        if programs.kind == "nccl-tests":
            raise UserError(
                "nccl-tests cannot be started by torchrun on several nodes, for it asks MPI for its ranks: use mpirun"
                " or srun, or `collectives`"
            )
        print('export HEAD="$(hostname)"')
    if launcher == "mpirun" and not sweep.launcher_words:
        print("# Outside an allocation mpirun has to be told the nodes: --launcher-arguments '--hostfile FILE'.")
    print("set -o pipefail")
    for number, run in enumerate(make_runs(sweep, programs)):
        id_file = (
            str(pathlib.Path(shared).absolute() / f"sdp4bit-bench-id-{run_id}-{number}")
            if programs.kind == "collectives"
            else ""
        )
        words = launched(run, sweep, launcher, id_file, dict(os.environ))
        print(f"{shell_line(words)} 2>&1 | tee bench-{run.variant}-{run.repeat}-{run.collective}-{number}.txt")
    print(f"sdp4bit bench --read . --nodes {sweep.nodes} --gpus {sweep.gpus} -o bench.json")


def read_outputs(folder: str, sweep: Sweep) -> Results:
    """What the printed lines left in a folder."""
    results = Results(False, sweep.nodes, sweep.gpus, "printed lines", started=int(time.time()))
    texts = {}
    if not pathlib.Path(folder).is_dir():
        raise UserError(f"--read {folder}: there is no such folder; give the one in which the printed lines ran")
    for path in sorted(pathlib.Path(folder).iterdir()):
        named = OUTPUT_NAME.fullmatch(path.name)
        if not named:
            continue
        text = path.read_text(errors="replace")
        rows = parse_output(text, named[1], int(named[2]), named[3])
        if not rows:
            print(f"sdp4bit: {path}: no measurement in it; the run failed?", file=sys.stderr)
        results.add(rows)
        if named[1] == "sdp4bit":
            texts[path.name] = engaged_version(text)
    if not results.rows:
        raise UserError(
            f"{folder} holds no output of printed lines (bench-native-0-reduce_scatter-0.txt, ...) with measurements"
            " in it"
        )
    results.version = next((version for version in texts.values() if version), "")
    _warn_if_native([name for name, version in texts.items() if not version])
    return results


def _warn_if_native(names: Sequence[str]) -> None:
    if names:
        print(
            "sdp4bit: the library did not say that it works in"
            f" {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}: these numbers are NCCL's own. Sizes"
            " below SDP4BIT_MIN_BYTES, one node, or `sdp4bit doctor`",
            file=sys.stderr,
        )


def _say_what_stays_native(sweep: Sweep) -> None:
    """Sizes that the library leaves to NCCL by their size are no comparison."""
    text = os.environ.get("SDP4BIT_MIN_BYTES", "auto")
    automatic = text == "auto"  # by the topology: most begin below this
    try:
        least = units.parse_bytes("1M" if automatic else text)
    except ValueError:
        return  # the library says so itself
    if sweep.begin < least:
        stay = "small sizes stay native" if automatic else f"sizes below SDP4BIT_MIN_BYTES={text} stay native"
        print(
            f"sdp4bit: {stay} with the library, too; to measure them export SDP4BIT_MIN_BYTES=0",
            file=sys.stderr,
        )


def _end_of(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("sdp4bit info")]
    return lines[-1][:300] if lines else "it said nothing"


def measure(runs: Sequence[Run], commands: Sequence[List[str]], results: Results, timeout: float) -> None:
    """Runs one after the other; each adds its rows."""
    silent = []
    for number, (run, words) in enumerate(zip(runs, commands)):
        print(f"[{number + 1}/{len(runs)}] {run.name}", file=sys.stderr, flush=True)
        try:
            exit_code, said = run_group(words, environment_of(run, dict(os.environ)), timeout)
        except FileNotFoundError:
            raise UserError(f"{words[0]} was not found: install it, or take another --launch") from None
        except OSError as error:
            raise UserError(f"{words[0]} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise UserError(
                f"{run.name} did not end within {timeout:g} s: a rank hangs or is slow: SDP4BIT_LOG=info shows"
                " where, --timeout SECONDS gives it more",
                code=1,
            ) from None
        rows = parse_output(said, run.variant, run.repeat, run.collective)
        if exit_code != 0 or not rows:
            raise UserError(
                f"{run.name} failed (exit code {exit_code}): {_end_of(said)}. Its line:"
                f" {shell_line(words)}",
                code=1,
            )
        results.add(rows)
        if run.variant == "sdp4bit":
            version = engaged_version(said)
            results.version = results.version or version or ""
            silent += [] if version else [run.name]
    _warn_if_native(silent)


def _commands(
    arguments: argparse.Namespace, sweep: Sweep, programs: Programs, runs: Sequence[Run]
) -> List[List[str]]:
    if arguments.launch:
        shared = pathlib.Path(arguments.shared).absolute()
        if not shared.is_dir():
            raise UserError(f"--shared {arguments.shared}: there is no such folder")
        files = [
            str(shared / f"sdp4bit-bench-id-{os.getpid()}-{i}") if programs.kind == "collectives" else ""
            for i in range(len(runs))
        ]
        head = os.uname().nodename
        return [
            launched(run, sweep, arguments.launch, file, dict(os.environ), f"{head}:29500")
            for run, file in zip(runs, files)
        ]
    if programs.kind == "collectives":
        return [run.words + ["-g", str(sweep.gpus), "--nodes", str(sweep.nodes)] for run in runs]
    raise UserError(
        "nccl-tests on several ranks needs a launcher: give --launch mpirun or srun, or --print to see the lines"
    )


def _bytes(value: Optional[float]) -> str:
    return "-" if value is None else show_bytes(value)


def _line(pair: Pair, results: Results) -> str:
    native, ours = pair.native, pair.sdp4bit
    text = f"{native.collective:15}{show_size(native.bytes):>8} {native.type:9}{native.redop:5}"
    if results.emulated:
        text += "".join(f"{_bytes(results.bytes_of(each)):>12}" for each in (native, ours))
    else:
        text += (
            f"{native.busbw:12.2f}{ours.busbw:12.2f}{pair.speedup:10.2f}"
            f" {f'({pair.speedup_low:.2f} to {pair.speedup_high:.2f})':16}"
        )
    return text + (f"{ours.relative_error:11.2e}" if ours.relative_error is not None else f"{'-':>11}")


def table(results: Results) -> List[str]:
    """For a terminal: times where there are any, else bytes."""
    above = f"{'':37}{results.bytes_where + ', of a rank' if results.emulated else 'bus bandwidth, GB/s':>24}"
    head = f"{'':15}{'size':>8} {'type':9}{'op':5}{'native':>12}{'sdp4bit':>12}"
    head += f"{'error':>11}" if results.emulated else f"{'speed-up':>10} {'(range)':16}{'error':>11}"
    return [results.label, "", above, head, *(_line(pair, results) for pair in pairs(results.rows))]


def run(arguments: argparse.Namespace) -> int:
    sweep = _sweep(arguments)
    if arguments.read:
        results = read_outputs(arguments.read, sweep)
    else:
        programs = (
            emulated_programs()
            if arguments.emulated
            else find_programs(
                sweep.collectives, find_library(arguments.library), arguments.program, arguments.nccl_tests
            )
        )
        _say_what_stays_native(sweep)
        if arguments.printed:
            print_lines(sweep, programs, arguments.printed, arguments.shared)
            return 0
        runs = make_runs(sweep, programs)
        results = Results(
            arguments.emulated,
            sweep.nodes,
            sweep.gpus,
            programs.kind,
            started=int(time.time()),
            one_machine=not (arguments.launch or arguments.emulated),
        )
        measure(runs, _commands(arguments, sweep, programs, runs), results, arguments.timeout)
    print("\n".join(table(results)))
    if arguments.output:
        write_results(results, arguments.output)
        print(f"Written: {arguments.output}")
    return 0

"""Trains with and without the library, and shows what it costs in loss: `scripts/train.sh` without the set-up."""
from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shlex
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, Optional

import runs
from problem import Problem
from progress import Progress
from schemes import DEMO, FULL, QUICK, Scheme, Study, by_name
from sentences import of_study
from summary import Summary, final_loss, summarize
from tables import as_csv, as_markdown, as_text
from verdicts import failures


class Arguments(argparse.ArgumentParser):
    """Says what is wrong in one line, as for every other mistake."""

    def error(self, message: str) -> NoReturn:
        raise Problem(f"{message}; --help shows what there is")


def parse_arguments(words: Optional[list[str]] = None) -> argparse.Namespace:
    parser = Arguments(prog="scripts/train.sh", description=__doc__)
    add = parser.add_argument
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="five schemes, two seeds, few steps; fails unless they show what they must")
    length.add_argument("--demo", action="store_true", help="plain and sdp4bit, one seed, few steps")
    add("--schemes", metavar="NAME,...", help="only these; plain is always among them")
    add("--seeds", metavar="NUMBER,...", help="default: 1 to 5")
    add("--steps", type=int, help="of each run")
    add("--build", type=Path, default=runs.SOURCE / "build" / "dev", metavar="DIR")
    add("--out", type=Path, metavar="DIR", help="default: build/training/<kind of study>")
    add("--fresh", action="store_true", help="make all runs anew, also those that are finished")
    add("--jobs", type=int, default=max(1, machine()["cores"] // 4), help="runs at a time; default: one for each four cores")
    add("--timeout", type=float, default=1800.0, metavar="SECONDS", help="of one run")
    add("--from", dest="source", type=Path, metavar="RESULTS.json", help="no runs: write table, curves and page from an earlier study")
    return parser.parse_args(words)


def study_of(arguments: argparse.Namespace) -> Study:
    study = QUICK if arguments.quick else DEMO if arguments.demo else FULL
    names, seeds, steps = study.schemes, study.seeds, arguments.steps or study.steps
    if arguments.schemes is not None:
        asked = arguments.schemes.split(",")
        unknown = [name for name in asked if name not in FULL.schemes]
        if unknown:
            raise Problem(f"--schemes: unknown {', '.join(unknown)}; there are {', '.join(FULL.schemes)}")
        names = tuple(name for name in FULL.schemes if name in asked or name == "plain")
    if arguments.seeds is not None:
        words = arguments.seeds.split(",")
        if not all(word.isdigit() for word in words):
            raise Problem(f"--seeds: {arguments.seeds!r} is not a list of numbers such as 1,2,3")
        seeds = tuple(sorted({int(word) for word in words}))
    if arguments.jobs < 1:
        raise Problem(f"--jobs: {arguments.jobs} is not a number of runs; at least 1")
    if steps < 20:
        raise Problem(f"--steps: {steps} is too few for the library to learn its weights; at least 20")
    return Study(study.name, names, seeds, steps, study.evaluate_every)


def check_module(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise Problem(
            f"{sys.executable} has no {module}: apt-get install python3-{module} and use /usr/bin/python3, or run scripts/train.sh"
        )


def check_library(build: Path) -> None:
    library = build / "sandbox" / "lib" / "libsdp4bit.so"
    if not library.exists():
        raise Problem(f"no {library}: build it (scripts/train.sh does), or name the build folder by --build")


def command_line(words: list[str]) -> str:
    """As a user types it: the script adds the build folder by itself."""
    if "--build" in words:
        place = words.index("--build")
        words = words[:place] + words[place + 2 :]
    return shlex.join(["scripts/train.sh", *words])


def machine() -> dict[str, Any]:
    processor = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {"cores": len(os.sched_getaffinity(0)), "processor": processor}


def carry_out(study: Study, place: runs.Place, jobs: int) -> list[runs.Result]:
    """Seeds outermost, so that what an interrupted study has is of whole seeds; `jobs` runs at a time."""
    wanted = [(by_name(name), seed) for seed in study.seeds for name in study.schemes]
    progress = Progress(len(wanted), jobs)
    progress.say(f"{progress.total} runs of {study.steps} steps, {runs.NODES} nodes x {runs.RANKS_PER_NODE} ranks; results in {place.out}")

    def one(scheme: Scheme, seed: int) -> runs.Result:
        result = runs.finished(place, scheme, seed, study.steps, study.evaluate_every)
        seconds = None
        if result is None:
            result = runs.make(place, scheme, seed, study.steps, study.evaluate_every)
            seconds = float(result["seconds"])
        progress.finished(f"{scheme.name}, seed {seed}: validation loss {final_loss(result):.4f}", seconds)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, scheme, seed) for scheme, seed in wanted]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            runs.stop_all()
            raise


def files_of(summary: Summary, record: dict[str, Any]) -> dict[str, str]:
    """What a study leaves behind, by name."""
    import curves
    import page

    return {
        "results.json": json.dumps(record, separators=(",", ":")) + "\n",
        "curves.csv": as_csv(summary),
        "summary.md": as_markdown(summary, of_study(summary)),
        "losses.svg": curves.losses(summary),
        "gaps.svg": curves.gaps(summary),
        "page.html": page.make_page(summary, record["command"], record["machine"]),
    }


def main() -> int:
    arguments = parse_arguments()
    if arguments.source is not None:
        try:
            record = json.loads(arguments.source.read_text())
            summary = summarize(record["results"])
            check_module("matplotlib")
            files = files_of(summary, record)
        except OSError as error:
            raise Problem(f"--from {arguments.source}: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Problem(f"--from {arguments.source}: not a results.json of this program ({error!r})") from None
        out = arguments.out or arguments.source.parent
    else:
        study = study_of(arguments)
        check_module("torch")
        check_module("matplotlib")
        check_library(arguments.build)
        out = arguments.out or runs.SOURCE / "build" / "training" / study.name
        place = runs.Place(arguments.build.resolve(), out.resolve(), arguments.timeout)
        if arguments.fresh:
            runs.forget(place)
        results = carry_out(study, place, arguments.jobs)
        record = {"command": command_line(sys.argv[1:]), "machine": machine(), "results": results}
        summary = summarize(results)
        files = files_of(summary, record)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (out / name).write_text(text)
    print("\n" + as_text(summary))
    print("\n".join(of_study(summary)))
    print(f"\nThe page, with curves: {out / 'page.html'} (beside it: curves.csv, summary.md, results.json)")
    broken = failures(summary) if arguments.quick else []
    for sentence in broken:
        print(f"FAILED: {sentence}", file=sys.stderr)
    return 1 if broken else 0


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)  # no rank may stay behind
    try:
        sys.exit(main())
    except Problem as problem:
        print(f"cannot go on: {problem}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"cannot go on: {error.filename or 'the system'}: {error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        sys.exit(130)

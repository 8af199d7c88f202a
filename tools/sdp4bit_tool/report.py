"""Makes one HTML page of the statistics of a job's ranks, and of results of `sdp4bit bench`.

STATS are the files that SDP4BIT_STATS names: files, folders, or patterns in quotes. The page needs no network and no
other file; it holds what was sent instead of what, why calls stayed native, errors, settings and warnings.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from typing import List, Sequence, Tuple

from . import bench_page, page, report_findings, report_sections, svg_plots
from .bench_results import Results, is_results, parse_results
from .errors import UserError
from .job import Job, make_job, split_jobs
from .stats_files import BadFile, Process, find_files, load_json, parse_process
from .units import plural


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "stats", metavar="STATS", nargs="+", help="JSON files, folders of them, or patterns in quotes"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="sdp4bit-report.html", help="the page (default: %(default)s)"
    )
    parser.add_argument("--title", default="sdp4bit report", help="the page's title")


def read(names: Sequence[str]) -> Tuple[List[Process], List[Tuple[str, Results]], List[Tuple[str, str]]]:
    """Processes, results of bench, and files that are neither, with the reason."""
    processes: List[Process] = []
    benches: List[Tuple[str, Results]] = []
    bad: List[Tuple[str, str]] = []
    for path in find_files(names):
        try:
            data = load_json(path)
            if is_results(data):
                benches.append((path, parse_results(data)))
            elif isinstance(data, dict) and "schema" in data:
                processes.append(parse_process(path, data))
            else:
                raise BadFile("it is JSON, but neither of SDP4BIT_STATS nor of `sdp4bit bench`")
        except BadFile as error:
            bad.append((path, str(error)))
    if not processes and not benches:
        if len(bad) == 1:
            raise UserError(f"{bad[0][0]} cannot be used: {bad[0][1]}")
        shown = "; ".join(f"{path}: {reason}" for path, reason in bad[:3])
        more = f"; and {len(bad) - 3} more" if len(bad) > 3 else ""
        raise UserError(f"none of {plural(len(bad), 'file')} can be used: {shown}{more}")
    return processes, benches, bad


def make_page(
    processes: Sequence[Process],
    benches: Sequence[Tuple[str, Results]],
    bad: Sequence[Tuple[str, str]],
    title: str,
    now: float,
) -> Tuple[str, str]:
    """The page and its verdict."""
    content: List[str] = []
    jobs = [make_job(job) for job in split_jobs(processes)]
    job: Job = jobs[-1] if jobs else make_job([])
    if jobs:
        verdict = report_findings.verdict(job)
        content += [report_sections.head(job), report_sections.warnings(report_findings.findings(job, jobs, bad))]
        content += report_sections.all_sections(job)
    else:
        verdict = bench_page.verdict(benches)
        content.append(report_sections.warnings(report_findings.bad_files(bad)))
    if not svg_plots.AVAILABLE:
        content.insert(0, page.notes([("plain", svg_plots.MISSING)]))
    content += [bench_page.section_of(path, results) for path, results in benches]
    if jobs:
        content.append(report_sections.files(processes, job))
    made = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(now))
    versions = sorted({process.version for process in job.processes if process.version})
    by = f" of libsdp4bit {', '.join(versions)}" if versions else ""
    footer = f"Made by `sdp4bit report` on {made} from {plural(len(processes) + len(benches), 'file')}{by}."
    return page.page(title, verdict, content, footer), verdict


def run(arguments: argparse.Namespace) -> int:
    processes, benches, bad = read(arguments.stats)
    text, verdict = make_page(processes, benches, bad, arguments.title, time.time())
    target = pathlib.Path(arguments.output)
    try:
        target.write_bytes(text.encode("utf-8", errors="replace"))
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}; give another -o") from None
    for path, reason in bad:
        print(f"sdp4bit: not used: {path}: {reason}", file=sys.stderr)
    if not svg_plots.AVAILABLE:
        print(f"sdp4bit: {svg_plots.MISSING}", file=sys.stderr)
    print(verdict)
    print(f"The page: {target}")
    return 0

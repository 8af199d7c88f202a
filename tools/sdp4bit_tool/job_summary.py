"""What the ranks of one machine did, in a few lines, from the statistics that they wrote."""

from __future__ import annotations

import glob
import os
import re
import socket
from collections import Counter
from typing import Dict, List, NamedTuple, Sequence, Tuple

from .job import Job, make_job
from .reasons import explain
from .stats_files import FUNCTIONS, BadFile, Function, Process, load_json, parse_process
from .units import plural, show_bytes, show_count


class Found(NamedTuple):
    """Processes whose files could be read, and files that could not, with the reason."""

    processes: List[Process]
    bad: List[Tuple[str, str]]


def read_files(pattern: str, since: float) -> Found:
    """The files that SDP4BIT_STATS=pattern made on this host after that moment."""
    known = {"%h": glob.escape(socket.gethostname()), "%p": "*", "%r": "*", "%%": "%"}
    wanted = "".join(known.get(part, glob.escape(part)) for part in re.split(r"(%[hpr%])", pattern))
    found = Found([], [])
    for path in sorted(glob.glob(wanted)):
        try:
            if os.stat(path).st_mtime >= since:
                found.processes.append(parse_process(path, load_json(path)))
        except OSError as error:
            found.bad.append((path, error.strerror or "it cannot be read"))
        except BadFile as error:
            found.bad.append((path, str(error)))
    return found


def _fewer(before: float, after: float) -> str:
    return f", {before / after:.1f} times fewer" if after > 0 and before > 1.05 * after else ""


def _traffic(job: Job) -> List[str]:
    lines = []
    for where, traffic in (("between nodes", job.links.between), ("in the node", job.links.inside)):
        if traffic.native > 0:
            lines.append(f"{where}: sent {show_bytes(traffic.after)} instead of {show_bytes(traffic.before)}"
                         f"{_fewer(traffic.before, traffic.after)}")
    return lines


def _function(name: str, function: Function) -> str:
    native = [f"{show_count(calls)} {explain(reason).short}"
              for reason, calls in Counter(function.calls).most_common() if reason != "compressed" and calls]
    text = f"{name}: {plural(function.all_calls, 'call')}, {show_count(function.compressed)} compressed"
    return text + (f"; native: {', '.join(native)}" if native else "")


def _weights(job: Job) -> List[str]:
    stages: Counter[str] = Counter()
    events: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for process in job.processes:
        for communicator in process.communicators:
            for each in communicator.classes:
                stages[each.stage] += 1
                numbers.update({key: each.numbers.get(key, 0) for key in ("jumps", "refreshes")})
                if each.stage == "native" and each.last_event:
                    events[each.last_event] += 1
    if not stages:
        return []
    names = {"difference": "sent as differences", "learning": "still learning", "native": "native for good"}
    text = ", ".join(f"{show_count(number)} {names.get(stage, stage)}" for stage, number in stages.most_common())
    if events:
        text += f" ({', '.join(f'{event}: {show_count(number)}' for event, number in events.most_common(3))})"
    return [f"classes of weights, each rank's own: {text}; {plural(numbers['jumps'], 'jump')}, "
            f"{show_count(numbers['refreshes'])} refreshes"]


def _warnings(job: Job, bad: Sequence[Tuple[str, str]]) -> List[str]:
    found = [f"{path}: {why}; it is not counted here" for path, why in bad[:3]]
    off: Dict[Tuple[str, str], int] = {}
    for process in job.processes:
        for communicator in process.communicators:
            if communicator.agreement == "off" and communicator.why:
                key = (communicator.name or "without a name", communicator.why)
                off[key] = off.get(key, 0) + 1
    found += [f"off on communicator {name}: {why}" for name, why in list(off)[:6]]
    for key, what in (("nonfinite_groups_sent", "that were sent"), ("nonfinite_groups_received", "that were received")):
        number = sum(function.count(key) for function in job.functions.values())
        if number:
            found.append(f"NaN or infinity in {plural(number, 'group')} {what}")
    versions = sorted({process.version for process in job.processes})
    if len(versions) > 1:
        found.append(f"different versions of the library: {', '.join(versions)}")
    errors = sum(process.logged.get("errors", 0) for process in job.processes)
    warnings = sum(process.logged.get("warnings", 0) for process in job.processes)
    if errors or warnings:
        found.append(f"the library logged {plural(errors, 'error')} and {plural(warnings, 'warning')}: lines that begin "
                     "with `sdp4bit error` and `sdp4bit warn` above")
    return found


def summarize(found: Found) -> List[str]:
    """The lines. Without any process there is nothing to say here."""
    job = make_job(found.processes)
    hosts = {process.host for process in job.processes if process.host}
    number = len(job.processes)
    head = f"{number} {'process' if number == 1 else 'processes'} on {hosts.pop() if len(hosts) == 1 else 'this machine'}"
    if job.calls == 0:
        lines = [f"{head}: communicators were made, but no ReduceScatter or AllGather was called"]
    else:
        lines = [f"{head}: {show_count(job.compressed)} of {plural(job.calls, 'call')} compressed"]
    lines += [f"  {line}" for line in _traffic(job)]
    lines += [f"  {_function(name, job.functions[name])}" for name in FUNCTIONS if job.functions[name].all_calls]
    lines += [f"  {line}" for line in _weights(job)]
    lines += [f"  warning: {line}" for line in _warnings(job, found.bad)]
    return lines

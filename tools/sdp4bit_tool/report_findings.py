"""What a job's numbers mean: the verdict in a sentence or two, and the warnings."""

from __future__ import annotations

import itertools
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

from .job import Group, Job, mean_error, outliers
from .reasons import explain
from .stats_files import SAMPLE_KINDS
from .units import plural, show_bytes, show_count, show_percent


class Finding(NamedTuple):
    """`kind` is alarm, warning or plain."""

    kind: str
    text: str


def _fewer(before: float, after: float) -> str:
    return f" ({before / after:.1f} times fewer)" if after > 0 and before > 1.05 * after else ""


def _mostly(job: Job) -> str:
    reasons = job.native_reasons()
    if not reasons:
        return "every call was compressed"
    native = job.calls - job.compressed
    reason, by_function = reasons[0]
    share = sum(by_function.values()) / native
    off = _off(job)
    why = (
        f"off on their communicators ({off[0][0].split(';')[0]})"
        if reason == "agreement_off" and off
        else explain(reason).short
    )
    head = (
        f"{show_percent(native, job.calls)} of {plural(job.calls, 'call')} "
        + ("was" if job.calls == 1 else "were")
        + " native"
    )
    return f"{head}, {'all' if share == 1 else 'mostly' if share > 0.5 else 'most often'} because: {why}"


def _off(job: Job) -> List[Tuple[str, List[Group]]]:
    """Why communicators are off, and which; those with most calls first."""
    found: Dict[str, List[Group]] = {}
    for group in job.groups:
        for why in sorted({member.why for _, member in group.members if member.agreement == "off" and member.why}):
            found.setdefault(why, []).append(group)

    def calls(groups: Sequence[Group]) -> int:
        return sum(function.all_calls for group in groups for function in group.functions.values())

    return sorted(found.items(), key=lambda each: -calls(each[1]))


def verdict(job: Job) -> str:
    """A sentence or two with numbers."""
    if job.calls == 0:
        return (
            f"No ReduceScatter or AllGather was seen in {plural(len(job.processes), 'process', 'processes')}. The"
            " program makes none, or its NCCL is reached past the library: `sdp4bit doctor` tells which."
        )
    reasons = _mostly(job)
    if job.compressed == 0:
        return f"Nothing was compressed in this job: {reasons}."
    between, inside = job.links.between, job.links.inside
    if between.native > 0:
        sentence = (
            f"This job sent {show_bytes(between.after)} between nodes instead of {show_bytes(between.before)}"
            f"{_fewer(between.before, between.after)}"
        )
    else:
        sentence = (
            f"This job ran in one node and sent {show_bytes(inside.after)} instead of {show_bytes(inside.before)}"
            f"{_fewer(inside.before, inside.after)}"
        )
    return f"{sentence}; {reasons}."


def bad_files(bad: Sequence[Tuple[str, str]]) -> List[Finding]:
    shown = [Finding("warning", f"Not used: {path}: {reason}.") for path, reason in bad[:8]]
    if len(bad) > 8:
        shown.append(Finding("warning", f"{plural(len(bad) - 8, 'more file')} could not be used."))
    return shown


def _ranks(labels: Sequence[str]) -> str:
    return ", ".join(labels[:6]) + (f" and {len(labels) - 6} more" if len(labels) > 6 else "")


def _completeness(job: Job, jobs: Sequence[Job]) -> List[Finding]:
    found = []
    if len(jobs) > 1:
        sizes = ", ".join(plural(len(each.processes), "process", "processes") for each in jobs)
        found.append(
            Finding(
                "alarm",
                f"The files are of {len(jobs)} jobs or runs ({sizes}), by their ranks, sizes and times. "
                "This page shows the one that began last; give the files of one job to see another.",
            )
        )
    expected = job.ranks_expected
    ranks = {process.job_rank for process in job.processes if process.job_rank >= 0}
    if expected and len(ranks) < expected:
        first = [
            str(rank)
            for rank in itertools.islice(
                (rank for rank in itertools.count() if rank not in ranks), min(6, expected - len(ranks))
            )
        ]
        more = expected - len(ranks) - len(first)
        found.append(
            Finding(
                "warning",
                f"Files of {len(ranks)} of the job's {expected} ranks were given; sums are of these. "
                f"Missing: {', '.join(first)}"
                + (f" and {more} more." if more else "."),
            )
        )
    if len(job.processes) > 1 and not ranks:
        found.append(
            Finding(
                "plain",
                "No launcher told the processes their ranks (RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID, ...): they are"
                " shown by their ids, and files of several runs cannot be told apart.",
            )
        )
    versions = sorted({process.version or "unknown" for process in job.processes})
    if len(versions) > 1:
        parts = [
            f"{version} ({_ranks([p.label for p in job.processes if (p.version or 'unknown') == version])})"
            for version in versions
        ]
        found.append(
            Finding("alarm", "Different versions of the library: " + "; ".join(parts) + ". Install one everywhere.")
        )
    last = max((process.written or 0 for process in job.processes), default=0)
    stale = [process.label for process in job.processes if process.written and last - process.written > 60]
    if stale:
        found.append(
            Finding(
                "warning",
                f"Written more than a minute before the others': {_ranks(stale)}. A process that was "
                "killed leaves its file behind.",
            )
        )
    return found


def _called(group: Group) -> str:
    return f"{group.name or 'unnamed'} ({group.shape})"


def _agreement(job: Job) -> List[Finding]:
    found = []
    for why, groups in _off(job):
        # Where a rank is named something is wrong there; across nodes there was something to gain.
        worth = why.startswith("rank ") or (
            any(group.nodes > 1 for group in groups) and "SDP4BIT_ENABLE=0" not in why
        )
        names = ", ".join(_called(group) for group in groups[:3]) + (
            f" and {len(groups) - 3} more" if len(groups) > 3 else ""
        )
        found.append(Finding("warning" if worth else "plain", f"Off on {names}: {why}."))
    for group in job.groups:
        waiting = [
            process.label
            for process, member in group.members
            if member.agreement == "pending" and max(f.all_calls for f in member.functions.values()) > 8
        ]
        if waiting:
            found.append(
                Finding("warning", f"{_called(group)} has not agreed after many calls, on {_ranks(waiting)}.")
            )
    return found


def _options(job: Job) -> List[Finding]:
    found = []
    for name, values in sorted(job.option_values().items()):
        if len(values) > 1:
            parts = [
                f"{value or '(empty)'} on {_ranks([each.label for each in processes])}"
                for value, processes in values.items()
            ]
            own = name in ("SDP4BIT_STATS", "SDP4BIT_METRICS", "SDP4BIT_LOG", "SDP4BIT_WATCHDOG")
            found.append(
                Finding("plain" if own else "warning", f"{name} differs between ranks: {'; '.join(parts[:4])}.")
            )
    return found


def _numbers(job: Job) -> List[Finding]:
    found = []
    sent = sum(function.count("nonfinite_groups_sent") for function in job.functions.values())
    if sent:
        who = [
            process.label
            for process in job.processes
            if any(f.count("nonfinite_groups_sent") for f in process.functions.values())
        ]
        found.append(
            Finding(
                "alarm",
                f"NaN or infinity in {show_count(sent)} groups that were sent, by {_ranks(who)}. They arrive "
                "as NaN, so that a loss scaler sees them; a few at the start of a run with loss scaling are usual.",
            )
        )
    damaged = sum(function.count("checksums_failed") for function in job.functions.values())
    if damaged:
        who = [
            process.label
            for process in job.processes
            if any(f.count("checksums_failed") for f in process.functions.values())
        ]
        found.append(
            Finding(
                "alarm",
                f"{plural(damaged, 'message')} arrived damaged, at {_ranks(who)}: the log names the sender; what to look "
                "at is in docs/troubleshooting.md.",
            )
        )
    captured = sum(function.count("captured_calls") for function in job.functions.values())
    if captured:
        found.append(
            Finding(
                "plain",
                f"{plural(captured, 'call')} became part of CUDA graphs. Their bytes count once, not at each "
                "replay: more was sent, and saved, than this page says.",
            )
        )
    if job.links.unknown:
        found.append(
            Finding(
                "plain",
                f"Left out of bytes: {show_bytes(job.links.unknown)} of buffers in native calls of "
                "communicators whose nodes are not known.",
            )
        )
    for group in job.groups:
        for i, each in enumerate(_stages(group)):
            if len(each) > 1:
                found.append(
                    Finding(
                        "plain",
                        f"Class {i} of {_called(group)} is at different stages "
                        f"in different files ({', '.join(sorted(each))}): they were written at different moments.",
                    )
                )
    error = mean_error(job, SAMPLE_KINDS[1])
    if error is not None and error > 0.25:
        found.append(
            Finding(
                "warning",
                f"The sampled error of gradients between nodes is {error:.2f}; the default format makes 0.10, the "
                "paper's 0.17, on bell-shaped data. Gradients with few large values: keep SDP4BIT_HADAMARD=32, or use smaller groups.",
            )
        )
    dropped = sum(process.files_not_written for process in job.processes)
    if dropped:
        found.append(
            Finding("warning", f"{plural(dropped, 'file')} of statistics could not be written: this page may be old.")
        )
    return found


def _stages(group: Group) -> List[Set[str]]:
    """Of each class, those that any rank says."""
    members = [member for _, member in group.members]
    most = max((len(member.classes) for member in members), default=0)
    return [{member.classes[i].stage for member in members if i < len(member.classes)} for i in range(most)]


def _balance(job: Job) -> List[Finding]:
    odd = outliers(job)
    if not odd:
        return []
    most = max(odd, key=lambda each: abs(each.value - each.usual))
    shown = show_bytes if "bytes" in most.what else lambda value: show_count(int(value))
    others = sorted(
        {each.process.label for each in odd} - {most.process.label}, key=lambda label: (len(label), label)
    )
    also = f" Unlike the others too: {_ranks(others)}." if others else ""
    return [
        Finding(
            "warning",
            f"Unlike the others: {most.process.label}, {most.what}: {shown(most.value)}, and the median is"
            f" {shown(most.usual)}.{also} Pipeline stages of different sizes are one good reason.",
        )
    ]


def findings(job: Job, jobs: Sequence[Job], bad: Sequence[Tuple[str, str]]) -> List[Finding]:
    """Alarms first."""
    found = (
        _completeness(job, jobs) + bad_files(bad) + _agreement(job) + _options(job) + _numbers(job) + _balance(job)
    )
    order = {"alarm": 0, "warning": 1, "plain": 2}
    return sorted(found, key=lambda each: order[each.kind])

"""What all ranks of one job did together: sums over the statistics of its processes, and what is odd among them."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from .stats_files import FUNCTIONS, Communicator, Function, Process, Samples

START_WINDOW = 1800  # seconds within which all processes of a job make their first call


@dataclass
class Traffic:
    """Bytes on one kind of link: of NCCL alone, and as they were sent."""

    native: float = 0.0  # NCCL's least for the compressed calls
    sent: float = 0.0  # what was sent for them
    passed_on: float = 0.0  # NCCL's least for the calls that stayed native

    @property
    def before(self) -> float:
        return self.native + self.passed_on

    @property
    def after(self) -> float:
        return self.sent + self.passed_on

    def add(self, other: "Traffic") -> None:
        self.native += other.native
        self.sent += other.sent
        self.passed_on += other.passed_on


@dataclass
class Links:
    """Traffic between nodes and in the nodes; `unknown`: bytes of native calls whose way is not known."""

    between: Traffic = field(default_factory=Traffic)
    inside: Traffic = field(default_factory=Traffic)
    unknown: float = 0.0

    def add(self, other: "Links") -> None:
        self.between.add(other.between)
        self.inside.add(other.inside)
        self.unknown += other.unknown


def links_of(function: Function, ranks: int, nodes: int) -> Links:
    """One rank's bytes. Native calls are not counted by the library where they go: a shard crosses once to each other
    node, and once to each other rank of a node for every node, as in the counters of compressed calls."""
    links = Links(
        Traffic(function.count("native_bytes_between_nodes"), function.count("sent_bytes_between_nodes")),
        Traffic(function.count("native_bytes_in_node"), function.count("sent_bytes_in_node")),
    )
    rest = function.count("bytes_given") - function.count("compressed_bytes_given")
    if rest <= 0 or ranks == 1:
        return links
    if nodes == 0 or ranks == 0:
        links.unknown = rest
        return links
    shard = rest / ranks
    links.between.passed_on = shard * (nodes - 1)
    links.inside.passed_on = shard * (ranks - nodes)  # nodes x (ranks of a node - 1), where those are equal
    return links


@dataclass
class Group:
    """Communicators that are alike on all ranks: of one name and shape, in the order of their first use."""

    name: str
    ranks: int
    nodes: int
    members: List[Tuple[Process, Communicator]] = field(default_factory=list)
    links: Links = field(default_factory=Links)
    functions: Dict[str, Function] = field(default_factory=lambda: {name: Function() for name in FUNCTIONS})

    @property
    def instances(self) -> int:
        """How many there are of it in the job, as far as files tell."""
        return max(1, -(-len(self.members) // max(1, self.ranks)))

    @property
    def shape(self) -> str:
        if not self.ranks:
            return "closed ones together"
        text = f"{self.ranks} rank" + ("" if self.ranks == 1 else "s")
        if self.nodes:
            text += f" on {self.nodes} node" + ("" if self.nodes == 1 else "s")
        return text + (f", {self.instances} of them" if self.instances > 1 else "")

    def add(self, process: Process, communicator: Communicator) -> None:
        self.members.append((process, communicator))
        for name, function in communicator.functions.items():
            add_function(self.functions[name], function)
            self.links.add(links_of(function, communicator.ranks, communicator.nodes))


def add_function(total: Function, function: Function) -> None:
    for mine, theirs in ((total.calls, function.calls), (total.counters, function.counters)):
        for key, value in theirs.items():
            mine[key] = mine.get(key, 0) + value


@dataclass
class Job:
    """All of one job's processes."""

    processes: List[Process]
    groups: List[Group]
    functions: Dict[str, Function]
    links: Links

    @property
    def ranks_expected(self) -> Optional[int]:
        known = max((process.job_ranks for process in self.processes), default=-1)
        return known if known > 0 else None

    @property
    def nodes(self) -> int:
        """Most nodes that a communicator spans; 0 where none has said it."""
        return max((group.nodes for group in self.groups), default=0)

    @property
    def seconds(self) -> Optional[int]:
        started = [process.started for process in self.processes if process.started]
        written = [process.written for process in self.processes if process.written]
        return max(written) - min(started) if started and written else None

    @property
    def calls(self) -> int:
        return sum(function.all_calls for function in self.functions.values())

    @property
    def compressed(self) -> int:
        return sum(function.compressed for function in self.functions.values())

    def native_reasons(self) -> List[Tuple[str, Dict[str, int]]]:
        """Reasons with their calls by function, most first."""
        total: Counter[str] = Counter()
        for function in self.functions.values():
            total.update(
                {reason: calls for reason, calls in function.calls.items() if reason != "compressed" and calls}
            )
        return [
            (reason, {name: self.functions[name].calls.get(reason, 0) for name in FUNCTIONS})
            for reason, _ in total.most_common()
        ]

    def option_values(self) -> Dict[str, Dict[str, List[Process]]]:
        """By option, who has which value."""
        found: Dict[str, Dict[str, List[Process]]] = {}
        for process in self.processes:
            for name, (value, _) in process.options.items():
                found.setdefault(name, {}).setdefault(value, []).append(process)
        return found


def split_jobs(processes: Sequence[Process]) -> List[List[Process]]:
    """Processes by job, in the order in which those began. No field names the job: two processes of one rank, of jobs
    of different sizes, or that began far from each other are of different jobs."""
    jobs: List[List[Process]] = []
    for process in sorted(processes, key=lambda each: (each.started or 0, each.job_rank, each.process)):
        for job in reversed(jobs):
            same_rank = process.job_rank >= 0 and any(other.job_rank == process.job_rank for other in job)
            apart = bool(process.started and job[0].started and process.started - job[0].started > START_WINDOW)
            if not same_rank and not apart and job[0].job_ranks == process.job_ranks:
                job.append(process)
                break
        else:
            jobs.append([process])
    return jobs


def make_job(processes: Sequence[Process]) -> Job:
    """The sums."""
    ordered = sorted(processes, key=lambda each: (each.job_rank, each.process))
    groups: Dict[Tuple[str, int, int, int], Group] = {}
    for process in ordered:
        seen: Counter[Tuple[str, int, int, int]] = Counter()
        for communicator in sorted(process.communicators, key=lambda each: each.id):
            shape = (communicator.name, communicator.ranks, communicator.nodes)
            place = (*shape, communicator.device)  # a process may drive several devices: each is a rank of its own
            key = (*shape, seen[place])
            seen[place] += 1
            if key not in groups:
                groups[key] = Group(communicator.name, communicator.ranks, communicator.nodes)
            groups[key].add(process, communicator)
    functions = {name: Function() for name in FUNCTIONS}
    links = Links()
    for process in ordered:
        for name, function in process.functions.items():
            add_function(functions[name], function)
    for group in groups.values():
        links.add(group.links)
    by_bytes = sorted(groups.values(), key=lambda group: -(group.links.between.before + group.links.inside.before))
    return Job(ordered, by_bytes, functions, links)


def coarsen(samples: Samples, each: int) -> List[float]:
    """The course in points of `each` samples, which is a power of two times its own."""
    ratio = max(1, each // samples.samples_per_point)
    points = [samples.course[i : i + ratio] for i in range(0, len(samples.course), ratio)]
    return [(sum(value * value for value in point) / len(point)) ** 0.5 for point in points]


@dataclass
class Course:
    """Sampled errors of one kind of message over a job's ranks."""

    samples_per_point: int
    low: List[float]
    middle: List[float]
    high: List[float]


def course_of(group: Group, kind: str) -> Optional[Course]:
    """Least, root mean square and largest over the ranks, point by point."""
    all_samples = [member.samples[kind] for _, member in group.members if member.samples[kind].course]
    if not all_samples:
        return None
    each = max(samples.samples_per_point for samples in all_samples)
    courses = [coarsen(samples, each) for samples in all_samples]
    course = Course(each, [], [], [])
    for i in range(max(len(points) for points in courses)):
        values = [points[i] for points in courses if i < len(points)]
        course.low.append(min(values))
        course.high.append(max(values))
        course.middle.append((sum(value * value for value in values) / len(values)) ** 0.5)
    return course


def mean_error(job: Job, kind: str) -> Optional[float]:
    """Of all processes that sampled, weighted by their samples."""
    sampled = [
        (process.samples[kind].samples, process.samples[kind].mean)
        for process in job.processes
        if process.samples[kind].samples
    ]
    total = sum(number for number, _ in sampled)
    return (sum(number * mean * mean for number, mean in sampled) / total) ** 0.5 if total else None


@dataclass
class Outlier:
    """A process whose number is far from the others'."""

    process: Process
    what: str
    value: float
    usual: float


def _links_of_process(process: Process) -> Links:
    links = Links()
    for communicator in process.communicators:
        for function in communicator.functions.values():
            links.add(links_of(function, communicator.ranks, communicator.nodes))
    return links


def balance(job: Job) -> List[Tuple[Process, Links]]:
    """What each process sent, in the order of ranks."""
    return [(process, _links_of_process(process)) for process in job.processes]


def outliers(job: Job) -> List[Outlier]:
    """Processes that are more than 5 % and six typical distances from the median: ranks of a job do the same."""
    if len(job.processes) < 3:
        return []
    sent = {id(process): links.between.after for process, links in balance(job)}
    measures: Tuple[Tuple[str, Callable[[Process], float]], ...] = (
        ("bytes sent between nodes", lambda process: sent[id(process)]),
        ("compressed calls", lambda process: float(sum(f.compressed for f in process.functions.values()))),
        ("calls", lambda process: float(sum(f.all_calls for f in process.functions.values()))),
    )
    found = []
    for what, measure in measures:
        values = [measure(process) for process in job.processes]
        usual = statistics.median(values)
        distance = statistics.median(abs(value - usual) for value in values)
        bound = max(0.05 * usual, 6 * distance)
        found += [
            Outlier(process, what, value, usual)
            for process, value in zip(job.processes, values)
            if abs(value - usual) > bound
        ]
    return found

"""From the results of all runs to one row a scheme: losses, gaps, bytes, compressed calls, equal ranks."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Optional

from comparison import Gap, Noise, gap, pooled
from library_facts import share
from problem import Problem
from schemes import PLAIN, SCHEMES, Scheme, by_name

Result = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """What the table says of a scheme."""

    scheme: Scheme
    losses: tuple[float, ...]
    gap: Optional[Gap]
    """To plain; none for plain itself."""
    against: Optional[Gap]
    """To the scheme that differs in one thing only."""
    between_nodes: float
    in_node: float
    """Bytes of all ranks in one step."""
    gradients_compressed: float
    weights_compressed: float
    equal_at_end: bool
    equal_from: Optional[int]
    """The number of steps after which all ranks held the same bits to the end, in the worst of the seeds."""

    @property
    def loss(self) -> float:
        return math.fsum(self.losses) / len(self.losses)


@dataclass(frozen=True)
class Summary:
    seeds: tuple[int, ...]
    steps: int
    rows: tuple[Row, ...]
    noise: Noise
    results: dict[str, dict[int, Result]]

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.scheme.name == name)

    def has(self, name: str) -> bool:
        return any(row.scheme.name == name for row in self.rows)


def final_loss(result: Result) -> float:
    return float(result["curve"][-1]["validation"])


def equal_from(result: Result) -> Optional[int]:
    """The number of steps after which all ranks held the same weights to the end; None: they did not at the end."""
    if len(set(result["weights"])) > 1:
        return None
    return max(result["unequal_after_steps"], default=-1) + 1


def summarize(all_results: list[Result]) -> Summary:
    results: dict[str, dict[int, Result]] = {}
    for result in all_results:
        results.setdefault(result["scheme"], {})[result["seed"]] = result
    if PLAIN not in results:
        raise Problem("no run of plain training is among the results: there is nothing to compare with")
    seeds = tuple(sorted(results[PLAIN]))
    for name, found in results.items():
        if tuple(sorted(found)) != seeds:
            raise Problem(f"{name} has runs of the seeds {sorted(found)}, plain of {list(seeds)}: make the missing ones")
    losses = {name: [final_loss(found[seed]) for seed in seeds] for name, found in results.items()}
    noisy = [name for name in losses if by_name(name).preloaded and not by_name(name).known_to_lose]
    noise = pooled([gap(losses[name], losses[PLAIN]) for name in noisy])
    rows = tuple(_row(scheme, seeds, results, losses, noise) for scheme in SCHEMES if scheme.name in results)
    return Summary(seeds, results[PLAIN][seeds[0]]["steps"], rows, noise, results)


def _row(
    scheme: Scheme,
    seeds: tuple[int, ...],
    results: dict[str, dict[int, Result]],
    losses: dict[str, list[float]],
    noise: Noise,
) -> Row:
    mine = [results[scheme.name][seed] for seed in seeds]
    starts = [equal_from(result) for result in mine]
    against = scheme.against if scheme.against in losses else None
    facts = mine[0]["library"]
    once, twice = noise.margin(len(seeds)), noise.margin(len(seeds), ways=2)

    def bytes_a_step(link: str) -> float:
        if any(result["traffic"] is None for result in mine):
            return math.nan
        return math.fsum(result["traffic"][link] / result["steps"] for result in mine) / len(mine)

    return Row(
        scheme=scheme,
        losses=tuple(losses[scheme.name]),
        gap=None if scheme.name == PLAIN else gap(losses[scheme.name], losses[PLAIN], once),
        against=gap(losses[scheme.name], losses[against], twice) if against else None,
        between_nodes=bytes_a_step("between_nodes"),
        in_node=bytes_a_step("in_node"),
        gradients_compressed=share(facts, "reduce_scatter") if facts else 0.0,
        weights_compressed=share(facts, "all_gather") if facts else 0.0,
        equal_at_end=all(start is not None for start in starts),
        equal_from=None if None in starts else max(start for start in starts if start is not None),
    )

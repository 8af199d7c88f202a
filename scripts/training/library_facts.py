"""What the library's statistics say about a run: how much was compressed, and in which mode."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from problem import Problem


def read_facts(files: list[Path]) -> dict[str, Any]:
    """From the files of all ranks; they must agree, for ranks take the same path."""
    facts = [_facts(file) for file in files]
    if any(other != facts[0] for other in facts):
        raise Problem(f"the library's statistics differ between ranks: {facts}")
    return facts[0]


def _facts(file: Path) -> dict[str, Any]:
    try:
        statistics = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise Problem(f"the library wrote no statistics, so it was not at work: {error}") from None
    facts: dict[str, Any] = {"version": statistics["version"]}
    for function in ("reduce_scatter", "all_gather"):
        calls = statistics[function]["calls"]
        facts[function] = {
            "calls": statistics[function]["all_calls"],
            "compressed": calls["compressed"],
            "native": {reason: number for reason, number in calls.items() if number and reason != "compressed"},
        }
    classes = [found for communicator in statistics["communicators"] for found in communicator.get("classes", [])]
    wanted = ("count", "stage", "own_shard", "slots", "differences", "jumps", "refreshes", "relearned")
    facts["classes"] = [{name: found[name] for name in wanted} for found in classes]
    return facts


def share(facts: Any, function: str) -> float:
    """Of the calls of a function, how many were compressed (0 to 1)."""
    calls = facts[function]["calls"]
    return facts[function]["compressed"] / calls if calls else 0.0

"""Made-up results of a study, shaped like those of real runs."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional

SOURCE = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "scripts" / "training"))

from schemes import by_name  # noqa: E402


def facts(name: str) -> Optional[dict[str, Any]]:
    scheme = by_name(name)
    if not scheme.preloaded:
        return None
    taken = scheme.variables.get("SDP4BIT_COLLECTIVES", "reduce_scatter,all_gather")
    made: dict[str, Any] = {"version": "0.1.0", "classes": []}
    for function in ("reduce_scatter", "all_gather"):
        compressed = 90 if function in taken else 0
        made[function] = {"calls": 100, "compressed": compressed, "native": {"not_agreed_yet": 100 - compressed}}
    if "all_gather" in taken and scheme.variables.get("SDP4BIT_WEIGHT_LEDGER") != "off":
        made["classes"] = [
            {"count": 640, "stage": "difference", "own_shard": "replica", "slots": 1, "differences": 90, "jumps": 0,
             "refreshes": 0, "relearned": 0}
        ]  # fmt: skip
    return made


def result(name: str, seed: int, loss: float, between_nodes: int = 4000, **changes: Any) -> dict[str, Any]:
    made = {
        "scheme": name,
        "seed": seed,
        "steps": 40,
        "curve": [
            {"step": 0, "validation": 3.4, "training": None},
            {"step": 20, "validation": loss + 0.5, "training": loss + 0.6},
            {"step": 40, "validation": loss, "training": loss + 0.1},
        ],
        "weights": ["aa", "aa", "aa", "aa"],
        "unequal_after_steps": [9, 10] if by_name(name).preloaded else [],
        "traffic": {"in_node": 8000, "between_nodes": between_nodes},
        "settings": {"steps": 40, "ranks": 4, "parameters": 1000},
        "versions": {"torch": "1.13", "NCCL": "2.28.9 (emulated)"},
        "library": facts(name),
    }
    made.update(changes)
    return made


def study(losses: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Results of schemes by name, one loss a seed."""
    return [
        result(name, seed, loss, 4000 if not by_name(name).preloaded else 1000)
        for name, found in losses.items()
        for seed, loss in enumerate(found, start=1)
    ]


WHOLE = {
    "plain": [1.50, 1.52, 1.51],
    "control": [1.501, 1.519, 1.51],
    "sdp4bit": [1.502, 1.519, 1.511],
    "weights": [1.499, 1.522, 1.510],
    "direct4": [1.560, 1.579, 1.571],
}

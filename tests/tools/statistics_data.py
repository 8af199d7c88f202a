"""Makes statistics as the library writes them, of jobs of any shape, for tests of who reads them."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Dict, List, Optional, Sequence

REASONS = ("compressed", "zero_count", "one_rank", "not_agreed_yet", "agreement_off", "too_small", "weight_native")
COUNTERS = (
    "elements",
    "bytes_given",
    "compressed_bytes_given",
    "native_bytes_in_node",
    "native_bytes_between_nodes",
    "sent_bytes_in_node",
    "sent_bytes_between_nodes",
    "sends",
    "gathers",
    "captured_calls",
    "nonfinite_groups_sent",
    "nonfinite_groups_received",
    "checksums_verified",
    "checksums_failed",
)
START = 1_800_000_000


def function(
    calls: Optional[Dict[str, int]] = None,
    call_bytes: int = 8 << 20,
    ranks: int = 4,
    nodes: int = 2,
    bits: float = 4.25,
    **counters: int,
) -> Dict[str, Any]:
    """bf16 calls of `call_bytes` each, with the bytes that the library would count."""
    counted = {reason: 0 for reason in REASONS}
    counted.update(calls or {})
    compressed, every = counted["compressed"], sum(counted.values())
    shard = compressed * call_bytes // ranks
    values = {name: 0 for name in COUNTERS}
    values.update(
        elements=every * call_bytes // 2,
        bytes_given=every * call_bytes,
        compressed_bytes_given=compressed * call_bytes,
        native_bytes_between_nodes=shard * (nodes - 1),
        native_bytes_in_node=shard * (ranks - nodes),
        sent_bytes_between_nodes=int(shard * (nodes - 1) * bits / 16),
        sent_bytes_in_node=shard * (ranks - nodes) // 2,
    )
    values.update(counters)
    return {"calls": counted, "all_calls": every, "last": "compressed", **values}


def samples(points: Sequence[float] = (), each: int = 1) -> Dict[str, Any]:
    """A course; one entry of sampled_error."""
    if not points:
        return {"samples": 0, "last": 0.0, "mean": 0.0}
    mean = (sum(point * point for point in points) / len(points)) ** 0.5
    return {
        "samples": len(points) * each,
        "last": points[-1],
        "mean": mean,
        "samples_per_point": each,
        "course": list(points),
    }


def sampled(points: Sequence[float] = (), each: int = 1) -> Dict[str, Any]:
    return {
        "gradient_first_exchange": samples(),
        "gradient_between_nodes": samples(points, each),
        "weight_difference": samples(),
    }


def communicator(
    id_: int = 0,
    name: str = "",
    ranks: int = 4,
    nodes: int = 2,
    rank: int = 0,
    gradients: Optional[Dict[str, Any]] = None,
    weights: Optional[Dict[str, Any]] = None,
    **fields: Any,
) -> Dict[str, Any]:
    return {
        "id": id_,
        "name": name,
        "ranks": ranks,
        "rank": rank,
        "nodes": nodes,
        "device": 0,
        "agreement": "on",
        "why": "",
        "closed": False,
        "reduce_scatter": gradients or function(ranks=ranks, nodes=nodes),
        "all_gather": weights or function(ranks=ranks, nodes=nodes),
        "sampled_error": sampled(),
        "memory": {"workspace_bytes": 64 << 20},
        "classes": [],
        **fields,
    }


def gather_class(**fields: Any) -> Dict[str, Any]:
    return {
        "count": 1 << 20,
        "type": "bf16",
        "stage": "difference",
        "last_event": "ledger_agreed",
        "slots": 2,
        "calls": 40,
        "differences": 30,
        "jumps": 0,
        "refreshes": 0,
        "relearned": 0,
        "resets": 0,
        "ledger_bytes": 4 << 20,
        "sample_bytes": 0,
        **fields,
    }


def process(
    rank: int = 0, ranks: int = 4, communicators: Optional[List[Dict[str, Any]]] = None, **fields: Any
) -> Dict[str, Any]:
    """One file's content; the process's functions are the sums over its communicators, as in the library's."""
    if communicators is None:
        communicators = [
            communicator(
                ranks=ranks,
                rank=rank,
                nodes=2,
                gradients=function({"compressed": 90, "not_agreed_yet": 3, "too_small": 7}, ranks=ranks),
            )
        ]
    sums = {}
    for name in ("reduce_scatter", "all_gather"):
        parts = [each[name] for each in communicators]
        calls = {reason: sum(part["calls"].get(reason, 0) for part in parts) for reason in REASONS}
        sums[name] = {
            "calls": calls,
            "all_calls": sum(calls.values()),
            "last": "none",
            **{counter: sum(part[counter] for part in parts) for counter in COUNTERS},
        }
    return {
        "schema": 1,
        "version": "0.1.0",
        "process": 1000 + rank,
        "host": f"node{rank // 2}",
        "job_rank": rank,
        "job_ranks": ranks,
        "started": START,
        "written": START + 600,
        **sums,
        "sampled_error": sampled(),
        "memory": {},
        "dropped": {"files_not_written": 0},
        "options": [
            {"name": "SDP4BIT_MIN_BYTES", "value": "1M", "default": True},
            {"name": "SDP4BIT_COMMS", "value": "all", "default": False},
        ],
        "communicators": communicators,
        **fields,
    }


def write(folder: str, contents: Sequence[Any], prefix: str = "rank") -> List[str]:
    """A file for each; texts are written as they are."""
    paths = []
    for i, content in enumerate(contents):
        path = pathlib.Path(folder) / f"{prefix}{i}.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        paths.append(str(path))
    return paths

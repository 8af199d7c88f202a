"""Predicts a training step native and with sdp4bit, and below which network speed sdp4bit is faster.

The model's formulas, what it leaves out, and how far it is from published numbers: docs/estimate.md. Give the measured
time of a native step (--step-ms) where you have one; it is the better input.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from dataclasses import replace
from typing import Any, Dict, Optional, Tuple

from . import estimate_page, published, units
from .bench_results import Results, pairs, read_results
from .errors import UserError
from .estimate_kernels import GPUS
from .estimate_model import (
    GRADIENT_BYTES,
    Cluster,
    Prediction,
    Training,
    compressed_gradients,
    native,
    predict,
    shape_of,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    job = parser.add_argument_group("the job")
    job.add_argument("--params", type=units.positive, help="parameters of the whole model: 7e9 or 7B")
    job.add_argument("--nodes", type=units.count, help="nodes")
    job.add_argument("--gpus", type=units.count, metavar="N", help="GPUs of a node")
    job.add_argument("--step-ms", type=units.positive, metavar="MS", help="measured time of a step without sdp4bit")
    job.add_argument(
        "--compute-ms",
        type=units.positive,
        metavar="MS",
        help="instead: a step's time without data-parallel communication",
    )
    job.add_argument("--tensor-parallel", type=units.count, default=1, metavar="N", help="tensor-parallel size (1)")
    job.add_argument("--pipeline-parallel", type=units.count, default=1, metavar="N", help="pipeline stages (1)")
    job.add_argument(
        "--gradients",
        choices=sorted(GRADIENT_BYTES),
        default="fp32",
        help="type in which gradients are reduced (fp32, as Megatron-LM does with bf16 weights)",
    )
    job.add_argument("--accumulation", type=units.count, default=1, metavar="N", help="micro batches of a step (1)")
    job.add_argument(
        "--overlap",
        type=units.fraction,
        default=0.0,
        metavar="0..1",
        help="share of communication that runs beside compute where there is enough of it (0)",
    )
    job.add_argument(
        "--sharding",
        choices=("optimizer", "full"),
        default="optimizer",
        help="optimizer: one reduction and one gather a step; full: FSDP, ZeRO-3 (optimizer)",
    )
    speeds = parser.add_argument_group("the cluster")
    speeds.add_argument("--nic-gbit", type=units.positive, metavar="GBIT", help="network card, Gbit/s")
    speeds.add_argument("--nics", type=units.count, metavar="N", help="network cards of a node (one for each GPU)")
    speeds.add_argument(
        "--nvlink-gbyte",
        type=units.positive,
        metavar="GBYTE",
        default=450.0,
        help="links of a GPU in the node, one direction, GB/s (450: H100; A100 300, H800 200, PCIe 25)",
    )
    speeds.add_argument("--gpu", choices=sorted(GPUS), default="h100", help="for the time of kernels (h100)")
    speeds.add_argument(
        "--network-efficiency",
        type=units.fraction,
        default=0.85,
        metavar="0..1",
        help="reached of the cards' speed (0.85)",
    )
    speeds.add_argument(
        "--nvlink-efficiency",
        type=units.fraction,
        default=0.8,
        metavar="0..1",
        help="reached of the links' speed (0.8)",
    )
    speeds.add_argument(
        "--from", dest="source", metavar="BENCH.json", help="network speed as `sdp4bit bench` measured it"
    )
    out = parser.add_argument_group("output")
    out.add_argument("--json", action="store_true", help="all numbers, for programs")
    out.add_argument("--plot", metavar="FILE", help="step time over network speed, as .svg or .png")
    out.add_argument("--html", metavar="FILE", help="a page with the numbers, the plot and the assumptions")
    out.add_argument("--published", action="store_true", help="compare the model with the published table, and end")


def _required(arguments: argparse.Namespace) -> None:
    missing = [f"--{name}" for name in ("params", "nodes", "gpus") if getattr(arguments, name) is None]
    if arguments.nic_gbit is None and arguments.source is None:
        missing.append("--nic-gbit (or --from)")
    if arguments.step_ms is None and arguments.compute_ms is None:
        missing.append("--step-ms (or --compute-ms)")
    if missing:
        raise UserError(
            f"estimate needs {', '.join(missing)}; for example: sdp4bit estimate --params 7e9 --nodes 16 --gpus 8 "
            "--nic-gbit 400 --step-ms 900"
        )
    if arguments.step_ms is not None and arguments.compute_ms is not None:
        raise UserError("--step-ms and --compute-ms say the same thing twice: give the one that was measured")
    for name in ("network_efficiency", "nvlink_efficiency"):
        if getattr(arguments, name) == 0:
            raise UserError(f"--{name.replace('_', '-')} is 0: nothing would ever arrive; give a share above 0")


def measured_network(results: Results, path: str) -> float:
    """A node's network, bytes a second: a ring through all ranks sends its bus bandwidth out of each node."""
    if results.emulated:
        raise UserError(
            f"{path} is of the emulated cluster: its times are those of an interpreter; measure on the cluster itself"
        )
    if results.nodes < 2:
        raise UserError(
            f"{path} was measured on one node: nothing crossed the network; give --nic-gbit, or measure on two nodes"
        )
    if results.one_machine:
        raise UserError(
            f"{path} was measured on one machine that plays {results.nodes} nodes: nothing crossed a network; give"
            " --nic-gbit, or measure with --launch or --print on the nodes"
        )
    rows = [row for row in results.rows if row.variant == "native" and row.collective == "reduce_scatter"] or [
        row for row in results.rows if row.variant == "native"
    ]
    largest = max((row.bytes for row in rows), default=0)
    speeds = sorted(row.busbw for row in rows if row.bytes == largest and row.busbw > 0)
    if not speeds:
        raise UserError(f"{path} holds no native bandwidth; run `sdp4bit bench` with both variants")
    return speeds[len(speeds) // 2] * 1e9


def compare_with_bench(results: Results, cluster: Cluster) -> Optional[Tuple[float, float]]:
    """Speed-up of the bench's largest ReduceScatter: by the model, and as measured."""
    found = [pair for pair in pairs(results.rows) if pair.native.collective == "reduce_scatter"]
    if not found:
        return None
    pair = max(found, key=lambda each: each.native.bytes)
    width = {"bfloat16": 2, "half": 2, "float": 4}.get(pair.native.type, 4)
    there = replace(cluster, nodes=results.nodes, gpus=results.gpus)
    training = Training(pair.native.bytes / width, gradient_bytes=width)
    shape = shape_of(there, training)
    return (
        native(there, training, shape, width).total / compressed_gradients(there, training, shape).total,
        pair.speedup,
    )


def _inputs(arguments: argparse.Namespace) -> Tuple[Cluster, Training, Optional[Results], str]:
    """The cluster, the training, the measurement if one was given, and the network in words."""
    results = read_results(arguments.source) if arguments.source else None
    if results:
        network = measured_network(results, arguments.source)
        said = f"{network / 1e9:.3g} GB/s of a node, measured ({pathlib.Path(arguments.source).name})"
    else:
        cards = arguments.nics or arguments.gpus
        network = arguments.nic_gbit * 1e9 / 8 * cards * arguments.network_efficiency
        kind = "" if arguments.nics else " (one for each GPU; --nics if a node has fewer)"
        said = (
            f"{cards} x {arguments.nic_gbit:g} Gbit/s of a node{kind}, {arguments.network_efficiency:g} of it"
            f" reached: {network / 1e9:.3g} GB/s"
        )
    cluster = Cluster(
        arguments.nodes,
        arguments.gpus,
        network,
        arguments.nvlink_gbyte * 1e9 * arguments.nvlink_efficiency,
        GPUS[arguments.gpu],
    )
    training = Training(
        arguments.params,
        arguments.tensor_parallel,
        arguments.pipeline_parallel,
        GRADIENT_BYTES[arguments.gradients],
        arguments.accumulation,
        arguments.overlap,
        arguments.sharding == "full",
    )
    return cluster, training, results, said


def as_json(prediction: Prediction) -> Dict[str, Any]:
    """All numbers, in seconds and bytes."""

    def step(of: Any) -> Dict[str, Any]:
        return {
            "seconds": of.total,
            "compute_seconds": of.compute,
            "kernel_seconds": of.kernels,
            "bytes_between_nodes_of_a_node": of.between,
            **{f"{name}_seconds": phase.total for name, phase in of.phases.items()},
            **{f"{name}_exposed_seconds": exposed for name, exposed in of.exposed.items()},
        }

    shape = prediction.shape
    return {
        "native": step(prediction.native),
        "sdp4bit": step(prediction.sdp4bit),
        "speedup": prediction.speedup,
        "break_even_gbit_of_a_node": None if prediction.break_even is None else prediction.break_even * 8 / 1e9,
        "break_even_gbit_of_a_node_by_kind": {
            name: None if speed is None else speed * 8 / 1e9 for name, speed in prediction.break_even_of.items()
        },
        "network_bytes_per_second_of_a_node": prediction.cluster.network,
        "data_parallel": {
            "ranks": shape.ranks,
            "nodes": shape.nodes,
            "ranks_of_a_node": shape.local,
            "communicators_sharing_a_node": shape.sharing,
            "elements": shape.elements,
        },
    }


def run(arguments: argparse.Namespace) -> int:
    if arguments.published:
        print(published.table(), end="")
        return 0
    _required(arguments)
    cluster, training, results, network = _inputs(arguments)
    prediction = predict(
        cluster,
        training,
        arguments.step_ms and arguments.step_ms / 1e3,
        arguments.compute_ms and arguments.compute_ms / 1e3,
    )
    checked = compare_with_bench(results, cluster) if results else None
    lines = estimate_page.text(prediction, network, checked)
    if arguments.plot:
        estimate_page.write_plot(prediction, arguments.plot)
    if arguments.html:
        estimate_page.write_page(prediction, network, checked, arguments.html)
    if arguments.json:
        found = as_json(prediction)
        if checked:
            found["bench_reduce_scatter_speedup"] = {"model": checked[0], "measured": checked[1]}
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(lines))
    for path in (arguments.plot, arguments.html):
        if path:
            print(f"Written: {path}", file=sys.stderr)
    return 0

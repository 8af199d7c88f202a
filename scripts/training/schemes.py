"""What is compared: each scheme's name, what it means, and the variables that make it."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional


@dataclass(frozen=True)
class Scheme:
    name: str
    title: str
    variables: dict[str, str] = field(default_factory=dict)
    preloaded: bool = True
    arguments: tuple[str, ...] = ()
    against: Optional[str] = None
    """The scheme that differs in one thing only; None: plain."""
    known_to_lose: bool = False
    """Its gaps vary with what it loses, so they say nothing about the noise."""


PLAIN = "plain"
CONTROL = "control"
"""Plain training again, where rank r works on the data of rank r + 1: the same gradients, summed in another order."""

PAPER = "paper"
"""The codecs of the SDP4Bit paper: what every other codec is held against."""

_WEIGHTS = {"SDP4BIT_COLLECTIVES": "all_gather"}
_GRADIENTS = {"SDP4BIT_COLLECTIVES": "reduce_scatter"}
_PAPER = {"SDP4BIT_PRESET": "paper"}

SCHEMES: tuple[Scheme, ...] = (
    Scheme(PLAIN, "plain NCCL", preloaded=False),
    Scheme(CONTROL, "plain NCCL, sums in another order", preloaded=False, arguments=("--rotate-data", "1")),
    Scheme(PAPER, "the paper's codecs", _PAPER),
    Scheme("sdp4bit", "sdp4bit, its defaults", against=PAPER),
    Scheme("dither8", "defaults, 8 bits in nodes dithered too", {"SDP4BIT_CODEC_INTRA": "dither8"}, against=PAPER),
    Scheme("dither4", "defaults, 4 dithered bits in nodes too", {"SDP4BIT_CODEC_INTRA": "dither4"}, against=PAPER),
    Scheme("weights-int4", "weight differences only, the paper's codec", {**_WEIGHTS, **_PAPER}),
    Scheme("weights", "weight differences only", _WEIGHTS, against="weights-int4"),
    Scheme("gradients", "gradients only, the paper's codecs", {**_GRADIENTS, **_PAPER}),
    Scheme(
        "no-hadamard",
        "gradients only, the paper's codecs, no Hadamard",
        {**_GRADIENTS, **_PAPER, "SDP4BIT_HADAMARD": "0"},
        against="gradients",
    ),
    Scheme(
        "int4-int4",
        "gradients only, the paper's codecs, 4 bits in nodes too",
        {**_GRADIENTS, **_PAPER, "SDP4BIT_CODEC_INTRA": "int4-sr"},
        against="gradients",
    ),
    Scheme(
        "direct4",
        "weights only, 4 bits without differences",
        {
            **_WEIGHTS,
            **_PAPER,
            "SDP4BIT_WEIGHT_LEDGER": "off",
            "SDP4BIT_WEIGHT_DIRECT": "4",
            # Without a ledger nobody asks whether masters are elsewhere; as they are, owners take what the others get.
            "SDP4BIT_OWN_SHARD": "replica",
        },
        against="weights",
        known_to_lose=True,
    ),
)

COMMON = {"SDP4BIT_MIN_BYTES": "64K"}
"""The model is small: its buckets are below the default of SDP4BIT_MIN_BYTES (1M), which suits networks."""


@dataclass(frozen=True)
class Study:
    """Which schemes, seeds and length."""

    name: str
    schemes: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int
    evaluate_every: int


FULL = Study("full", tuple(scheme.name for scheme in SCHEMES), (1, 2, 3, 4, 5), 240, 20)
QUICK = Study("quick", (PLAIN, CONTROL, "sdp4bit", "weights", "direct4"), (1, 2), 80, 20)
DEMO = Study("demo", (PLAIN, "sdp4bit"), (1,), 80, 20)


def by_name(name: str) -> Scheme:
    """A name that is none is a LookupError."""
    return {scheme.name: scheme for scheme in SCHEMES}[name]

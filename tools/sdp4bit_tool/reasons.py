"""What each reason to stay native means to a user, and what to do about it."""

from __future__ import annotations

from typing import Dict, NamedTuple


class Reason(NamedTuple):
    """`short` fits into a sentence; `advice` is one."""

    short: str
    advice: str


_KNOWN: Dict[str, Reason] = {
    "zero_count": Reason("calls without elements", "Nothing to do."),
    "one_rank": Reason("a communicator of one rank", "Nothing to do: there is nobody to send to."),
    "capturing": Reason(
        "captured into a CUDA graph",
        "AllGather under capture is always native; ReduceScatter is until an eager call was compressed.",
    ),
    "not_agreed_yet": Reason("before the ranks had agreed", "The first calls of each communicator always are."),
    "agreement_off": Reason(
        "the ranks agreed not to", "The notes at the top of the page say which communicators, and why."
    ),
    "collective_not_taken": Reason("switched off by SDP4BIT_COLLECTIVES", "Name the function there to compress it."),
    "type_not_taken": Reason("element type not compressed", "See SDP4BIT_GRAD_TYPES and SDP4BIT_WEIGHT_TYPES."),
    "op_not_taken": Reason("reduction not compressed", "Sums, averages and PreMulSum are."),
    "too_small": Reason(
        "below SDP4BIT_MIN_BYTES", "Lower it if such calls are many; small ones cost more than they save."
    ),
    "too_large": Reason("a count that fits no memory", "NCCL refuses it: look at the call."),
    "before_start_call": Reason("before SDP4BIT_START_CALL", "It was asked for."),
    "padded_gradients": Reason("a framework pads with garbage", "See SDP4BIT_RS_PADDED."),
    "unhealthy_gradients": Reason(
        "gradients that look like garbage",
        "See the warnings of the log: a model that diverges, or memory that was never written.",
    ),
    "workspace_too_small": Reason("SDP4BIT_WORKSPACE holds no chunk", "Raise it."),
    "hinted_otherwise": Reason("a hint of the program", "It was asked for."),
    "weight_native": Reason(
        "weights learn, refresh or do not stay",
        "See the stages of the classes below: what learns or is refreshed is native for some calls, and "
        "buffers that are fresh at each call are for good.",
    ),
    "simulated": Reason("ncclGroupSimulateEnd", "Nothing to do: nothing was sent."),
}


def explain(reason: str) -> Reason:
    """A reason of a later library has no more than its name."""
    return _KNOWN.get(reason) or Reason(
        reason.replace("_", " "),
        "This command does not know this reason; see docs/statistics.md of the library's version.",
    )

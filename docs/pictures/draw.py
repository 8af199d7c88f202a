#!/usr/bin/env python3
"""Draws the pictures of the documentation: docs/pictures/draw.py writes them beside itself."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from canvas import MUTED, Canvas  # noqa: E402

SEGMENTS = ("#cfe8ff", "#ffe2b8", "#d5f2d0", "#f3d4f5")  # by the rank that owns the result
NODE = "#f6f8fa"
IN_NODE = "#1a7f37"
BETWEEN = "#cf222e"


def gradient() -> Canvas:
    """ReduceScatter on 2 nodes with 2 ranks each."""
    canvas = Canvas(960, 480, "How a gradient travels: ReduceScatter on two nodes with two ranks each")
    columns = (110, 360, 560, 820)
    heads = ("input: a segment\nfor each rank", "1 encode 8 bits\nwhat others in the\nnode's columns need",
             "3 add in fp32,\nencode 4 bits", "5 add, transform\nback: the result")
    for x, head in zip(columns, heads):
        for number, line in enumerate(head.split("\n")):
            canvas.text(x + 50, 26 + number * 15, line, anchor="middle", bold=number == 0)
    canvas.text(508, 70, "2 in the node", anchor="middle", color=IN_NODE, bold=True)
    canvas.text(742, 70, "4 between nodes", anchor="middle", color=BETWEEN, bold=True)
    rows = (90, 160, 290, 360)
    for node in (0, 1):
        top = rows[2 * node] - 14
        canvas.box(8, top, 944, 148, fill=NODE)
        canvas.text(20, top + 18, f"node {node}", bold=True, color=MUTED)
    for rank, y in enumerate(rows):
        canvas.text(20, y + 34, f"rank {rank} ({rank // 2}, {rank % 2})")
        for segment in range(4):
            canvas.box(columns[0] + segment * 26, y, 24, 50, str(segment), SEGMENTS[segment])
        other = 1 - rank % 2  # the local peer's column: ranks (., other)
        for number, segment in enumerate((other, 2 + other)):
            canvas.box(columns[1] + number * 50, y + 10, 46, 30, f"{segment}: 8 b", SEGMENTS[segment], IN_NODE)
        own = rank % 2
        for number, segment in enumerate((own, 2 + own)):
            away = segment != rank
            canvas.box(columns[2] + number * 54, y + 10, 50, 30, f"{segment}: 4 b" if away else f"{segment}: fp32",
                       SEGMENTS[segment], BETWEEN if away else "#8c959f")
        canvas.box(columns[3], y + 5, 100, 40, f"segment {rank}\nsum or mean", SEGMENTS[rank])
        canvas.arrow((columns[0] + 108, y + 25), (columns[1] - 6, y + 25))
        peer = rows[rank ^ 1]
        canvas.arrow((columns[1] + 98, y + 25), (columns[2] - 6, peer + 25), color=IN_NODE)
        far = rows[(rank + 2) % 4]
        canvas.arrow((columns[2] + 108, y + 25), (columns[3] - 6, far + 25), color=BETWEEN)
        canvas.arrow((columns[0] + 52, y + 52), (columns[0] + 52, y + 60), (columns[2] + 52, y + 60),
                     (columns[2] + 52, y + 42), color="#8c959f", dashed=True)
        canvas.arrow((columns[2] + 104, y + 36), (columns[3] - 4, y + 36), color="#8c959f", dashed=True)
    canvas.text(20, 462, "Numbers are segments, colored by the rank that ends up with them. Dashed: own numbers, never "
                "quantized in the node, kept in fp32 after it.", color=MUTED)
    return canvas


def weight() -> Canvas:
    """AllGather by differences, of one sender."""
    canvas = Canvas(960, 400, "How a weight travels: the difference to the ledger, from rank (0, 0) to all others")
    for node, x in ((0, 8), (1, 488)):
        canvas.box(x, 44, 464, 300, fill=NODE)
        canvas.text(x + 12, 64, f"node {node}", bold=True, color=MUTED)
    canvas.text(20, 28, "One sender, rank (0, 0). Every rank sends so, all at once.", color=MUTED)
    canvas.text(40, 92, "rank (0, 0): the owner", bold=True)
    canvas.box(40, 104, 120, 36, "new shard, bf16", SEGMENTS[0])
    canvas.box(40, 168, 120, 36, "ledger entry", "#fff8c5")
    canvas.box(232, 132, 126, 44, "1 shard - entry,\ncoded with 4 bits", "#ffffff", BETWEEN)
    canvas.arrow((162, 122), (228, 146))
    canvas.arrow((162, 186), (228, 162))
    canvas.arrow((296, 178), (296, 222), (100, 222), (100, 208), color="#8c959f", dashed=True)
    canvas.text(198, 216, "adds its own codes", anchor="middle", size=11, color=MUTED)
    canvas.text(520, 92, "rank (1, 0): holds the entries of column 0", bold=True)
    canvas.box(520, 168, 120, 36, "ledger entry", "#fff8c5")
    canvas.box(716, 132, 150, 44, "3 entry + difference,\nrounded once", "#ffffff")
    canvas.arrow((360, 150), (712, 150), color=BETWEEN, width=2.5)
    canvas.text(520, 142, "2 codes, between nodes", color=BETWEEN, bold=True)
    canvas.arrow((642, 182), (712, 164))
    canvas.arrow((790, 178), (790, 222), (580, 222), (580, 208), color="#8c959f", dashed=True)
    canvas.text(690, 216, "the entry follows", anchor="middle", size=11, color=MUTED)
    for x, node in ((40, 0), (520, 1)):
        canvas.text(x, 270, f"rank ({node}, 1): gets the shard", bold=True)
        canvas.box(x, 282, 150, 40, "receive buffer,\nsame bits on all ranks", SEGMENTS[0], size=11)
    canvas.arrow((868, 154), (908, 154), (908, 302), (674, 302), color=IN_NODE, width=2.5)
    canvas.text(790, 294, "4 in the node, bf16", anchor="middle", color=IN_NODE, bold=True)
    canvas.arrow((360, 164), (420, 164), (420, 302), (194, 302), color=IN_NODE, width=2.5)
    canvas.text(310, 294, "4 in the node, bf16", anchor="middle", color=IN_NODE, bold=True)
    canvas.text(20, 374, "All who hold an entry add the same codes to it: what was rounded away is part of the next "
                "difference, and errors never add up.", color=MUTED)
    return canvas


def handshake() -> Canvas:
    """The first calls of a communicator on one rank."""
    canvas = Canvas(960, 230, "The first calls of a communicator")
    names = ("call 1", "call 2", "call 3", "call 4", "call 5 ...")
    canvas.text(20, 28, "ReduceScatter and AllGather on one communicator, in the order in which all ranks make them",
                color=MUTED)
    for number, name in enumerate(names):
        x = 20 + number * 188
        native = number < 3
        canvas.box(x, 50, 150, 46, f"{name}\n{'native: NCCL' if native else 'compressed, if it may'}",
                   "#eaeef2" if native else "#d5f2d0")
        if number < 4:
            canvas.arrow((x + 152, 73), (x + 186, 73))
    canvas.box(20, 128, 150, 62, "behind it: an AllGather\nof records, 2 KiB\neach; nobody waits", "#fff8c5")
    canvas.arrow((95, 98), (95, 126))
    canvas.box(584, 128, 160, 62, "before it: read the\nrecords; same verdict\non every rank; connect", "#fff8c5")
    canvas.arrow((664, 126), (664, 98))
    canvas.arrow((172, 159), (580, 159), dashed=True, color="#8c959f")
    canvas.text(376, 151, "the records have long arrived", anchor="middle", size=11, color=MUTED)
    canvas.text(20, 216, "Off, on every rank alike, if any rank says no or differs in a variable that shapes the wire.",
                color=MUTED)
    return canvas


def stages() -> Canvas:
    """The stages of a class of weight gathers."""
    canvas = Canvas(960, 330, "Stages of a class of weight gathers")
    canvas.box(30, 70, 190, 70, "learning\nnative calls, each with\na tiny record", "#eaeef2")
    canvas.box(385, 70, 190, 70, "difference\n4-bit differences\nto the ledger", "#d5f2d0")
    canvas.box(740, 70, 190, 70, "one round native\nand recorded: all\nentries set anew", "#fff8c5")
    canvas.box(385, 240, 190, 56, "native for good\nno ledger, no records", "#ffebe9")
    canvas.arrow((222, 90), (381, 90))
    canvas.text(302, 66, "exam passed,", anchor="middle", size=11)
    canvas.text(302, 81, "all hold the ledger", anchor="middle", size=11)
    canvas.arrow((383, 122), (224, 122))
    canvas.text(302, 140, "jumps in 3 rounds in a row", anchor="middle", size=11)
    canvas.text(302, 155, "or 17 of 64; a reset", anchor="middle", size=11)
    canvas.arrow((577, 90), (736, 90))
    canvas.text(657, 66, "a jump on some rank,", anchor="middle", size=11)
    canvas.text(657, 81, "or a refresh is due", anchor="middle", size=11)
    canvas.arrow((738, 122), (579, 122))
    canvas.text(657, 140, "after S calls", anchor="middle", size=11)
    canvas.arrow((125, 142), (125, 268), (381, 268))
    canvas.text(138, 216, "fresh buffers (exam 4096),", size=11)
    canvas.text(138, 231, "a rotating pool (exam 512),", size=11)
    canvas.text(138, 246, "no room for the ledger", size=11)
    canvas.arrow((480, 142), (480, 236))
    canvas.text(492, 186, "jumps led back to learning", size=11)
    canvas.text(492, 201, "for the third time with the same S", size=11)
    canvas.text(30, 36, "A class: all AllGathers of one count and type on a communicator. Every rank takes the same "
                "steps at the same calls.", color=MUTED)
    return canvas


PICTURES = {"gradient": gradient, "weight": weight, "handshake": handshake, "stages": stages}


def main() -> None:
    folder = pathlib.Path(__file__).resolve().parent
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
        print(f"wrote docs/pictures/{name}.svg")


if __name__ == "__main__":
    main()

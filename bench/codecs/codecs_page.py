"""Writes the tables of docs/codecs.md, between their marks; the text around them is written by hand."""

from __future__ import annotations

import argparse
import array
import ast
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from page import replace_between, table  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/codecs.md"
PAPER = {"gradient": "int4-sr g128 fp32", "weight": "int4 g2048 fp32"}
DEFAULTS = ("dither4 g64 bf16", "int8-sr g64 bf16", "compand4 g1024 bf16")


class PageError(Exception):
    """What cannot be had, and what to do."""


def read_npy(path: Path) -> array.array:
    """The floats of a snapshot of examples/05_train_gpt: fp32, or the bits of bf16 as 16-bit integers."""
    raw = path.read_bytes()
    if raw[:6] != b"\x93NUMPY" or raw[6] not in (1, 2):
        raise PageError(f"{path} is no .npy file of version 1 or 2")
    size, begin = (2, 10) if raw[6] == 1 else (4, 12)
    begin += (length := int.from_bytes(raw[8 : 8 + size], "little"))
    head = ast.literal_eval(raw[8 + size : 8 + size + length].decode("latin-1"))
    values = array.array("f")
    if head["descr"] == "<f4":
        values.frombytes(raw[begin:])
    elif head["descr"] == "<u2":
        halves = array.array("H", raw[begin:])
        words = bytearray(4 * len(halves))
        words[2::4], words[3::4] = halves.tobytes()[0::2], halves.tobytes()[1::2]
        values.frombytes(bytes(words))
    else:
        raise PageError(f"{path} holds {head['descr']}; fp32 (<f4) or bits of bf16 (<u2) are read")
    return values


def measure(program: Path, arguments: List[str], gradient: Optional[Path], difference: Optional[Path]) -> dict:
    """What the program `codecs` says; snapshots are handed to it as plain floats."""
    with tempfile.TemporaryDirectory(prefix="codecs-") as folder:
        command = [str(program), *arguments]
        for option, path in (("--gradient", gradient), ("--difference", difference)):
            if path is not None:
                plain = Path(folder) / option.lstrip("-")
                plain.write_bytes(read_npy(path).tobytes())
                command += [option, str(plain)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PageError(f"{program.name} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def name_cell(codec: str) -> str:
    return f"**{codec}**" if codec in DEFAULTS else codec


def codec_table(rows: List[dict], use: str, bits: int) -> str:
    chosen = [row for row in rows if row["use"] == use and int(row["bits"]) == bits]
    paper = next(row for row in rows if row["use"] == use and row["codec"] == PAPER[use])
    columns = [("gauss", "Gauss"), ("student", "t3"), ("recorded", "recorded")]
    columns = [(key, head) for key, head in columns if key in paper]
    heads = ["codec", "bits", "bytes"] + [head for _, head in columns] + ["factor"]
    heads += ["bias"] if use == "gradient" else []
    lines = []
    for row in chosen:
        cells = [name_cell(row["codec"]), f"{row['bits']:.4g}", f"{row['bits'] / 8:.4f}"]
        cells += [number(row[key]) for key, _ in columns]
        last = columns[-1][0]
        cells.append(number(row[last] / paper[last]))
        if use == "gradient":
            cells.append(f"{row['bias']:.1f}" if "bias" in row else "biased")
        lines.append(cells)
    return table(heads, lines)


def pair_table(pairs: List[dict]) -> str:
    rows = []
    for pair in pairs:
        rows.append(
            [pair["in_node"], pair["between"], f"{pair['bits_in_node']:.4g}", f"{pair['bits_between']:.4g}"]
            + [number(pair["error"]), number(pair["error"] / pairs[0]["error"])]
        )
    return table(["in a node", "between nodes", "bits in a node", "between", "error", "factor"], rows)


def candidate_table(measured: dict) -> str:
    """8 ranks that code the same numbers: by what their mean is better than one; 8 where errors are independent."""
    paper = {row["use"]: row for row in measured["rows"] if row["codec"] == PAPER[row["use"]]}
    rows = []
    for row in measured["candidates"]:
        cells = [row["codec"], f"{row['bits']:.5g}", *(number(row[key]) if key in row else "" for key in ("gauss", "student"))]
        cells += [number(row["recorded"]), number(row["recorded"] / paper[row["use"]]["recorded"])]
        drawn = "bias" in row
        cells += [f"{row['bias']:.1f}" if drawn else "biased", f"{row['student'] / row['student_mean']:.1f}" if drawn else ""]
        rows.append(cells)
    return table(["codec", "bits", "Gauss", "t3", "recorded", "factor", "bias", "8 ranks"], rows)


def cost_table(program: Path) -> str:
    """PTX and bytes an element as the emulated machine counts them now; machine code is the other page's."""
    done = subprocess.run([str(program), "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PageError(f"{program.name} failed: {done.stderr.strip()}")
    counted: Dict[str, dict] = {row["row"]: row for row in json.loads(done.stdout)["rows"]}
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    machine = {found[1]: float(found[2]) for found in re.finditer(r"^\| (.+?) \| [\d.]+ \| ([\d.]+) \| ", page, re.M)}
    rows = []
    for codec in ("int4-sr g128 fp32", "dither4 g64 bf16", "int8-sr g128 fp32", "int8-sr g64 bf16", "dither8 g64 bf16"):
        encode = f"quantize bf16 -> {codec}"
        cells = [f"{codec}, coding", f"{counted[encode]['ptx_per_element']:.1f}", cell(machine.get(encode))]
        rows.append(cells + [f"{counted[encode]['bytes_per_element']:.2f}"])
    for codec in ("int4-sr g128 fp32", "dither4 g64 bf16"):
        few, many = (f"reduce_finish {codec} -> bf16, messages={count}" for count in (4, 8))
        each = [(counted[many][key] - counted[few][key]) / 4 for key in ("ptx_per_element", "bytes_per_element")]
        known = machine.get(many) is not None and machine.get(few) is not None
        sass = (machine[many] - machine[few]) / 4 if known else None
        rows.append([f"{codec}, adding a message", f"{each[0]:.1f}", cell(sass), f"{each[1]:.2f}"])
    for codec in ("int4 g2048 fp32", "compand4 g1024 bf16"):
        for row, what in ((f"difference bf16 -> {codec}", "coding"), (f"apply {codec} -> bf16", "applying")):
            cells = [f"{codec}, {what}", f"{counted[row]['ptx_per_element']:.1f}", cell(machine.get(row))]
            rows.append(cells + [f"{counted[row]['bytes_per_element']:.2f}"])
    return table(["codec", "PTX", "sm_90", "bytes moved"], rows)


def cell(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="build folder, such as build/dev")
    parser.add_argument("--gradient", type=Path, metavar="FILE.npy", help="a snapshot of examples/05_train_gpt")
    parser.add_argument("--difference", type=Path, metavar="FILE.npy", help="likewise")
    parser.add_argument("--costs-only", action="store_true", help="only the table of instructions and bytes")
    arguments = parser.parse_args()
    try:
        text = PAGE.read_text(encoding="utf-8")
        text = replace_between(text, "costs", cost_table(arguments.build / "sandbox/bin/kernels"))
        if not arguments.costs_only:
            if arguments.gradient is None or arguments.difference is None:
                raise PageError("--gradient and --difference are needed: the page has a column of recorded data")
            measured = measure(arguments.build / "bin/codecs", [], arguments.gradient, arguments.difference)
            for mark, use, bits in (("gradients4", "gradient", 4), ("gradients8", "gradient", 8), ("weights4", "weight", 4)):
                text = replace_between(text, mark, codec_table(measured["rows"], use, bits))
            text = replace_between(text, "weights8", codec_table(measured["rows"], "weight", 8))
            text = replace_between(text, "tried", candidate_table(measured))
            text = replace_between(text, "pairs", pair_table(measured["two_levels"]))
        PAGE.write_text(text, encoding="utf-8")
    except (PageError, OSError, ValueError) as error:
        print(f"codecs_page: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Any JSON in place of a job's statistics or of bench's results: used, or named in one line; never a traceback.

usage: fuzz_statistics.py SECONDS FOLDER_OF_THE_TOOL FOLDER_OF_ITS_TESTS
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import sys
import tempfile
import time
from typing import Any, Iterator, Tuple

JUNK = [None, True, -1, 0, 2**70, 1e308, float("inf"), float("nan"), "", "x", "\ud800", "$\\frac$", [], {}, [1], [[]], {"a": 1}]


def places(value: Any, path: Tuple[Any, ...] = ()) -> Iterator[Tuple[Any, ...]]:
    """The way to every value inside another, by keys and indices."""
    if path:
        yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


def change_structure(value: Any, chance: random.Random) -> None:
    """Replaces, copies or takes away one value."""
    *way, last = chance.choice(list(places(value)))
    inner = value
    for key in way:
        inner = inner[key]
    action = chance.randrange(4)
    if action == 0:
        del inner[last]
    elif action == 1 and isinstance(inner, list):
        inner[last:last] = [inner[last]] * chance.choice((1, 3, 1000))
    else:
        inner[last] = chance.choice(JUNK)


def change_text(text: bytes, chance: random.Random) -> bytes:
    """Changes bytes, or cuts the end off."""
    data = bytearray(text)
    for _ in range(chance.choice((1, 2, 10))):
        data[chance.randrange(len(data))] = chance.choice(b'{}[]",:0-e\\\x00\xff')
    return bytes(data[: chance.randrange(1, len(data))]) if chance.random() < 0.2 else bytes(data)


def main() -> int:
    seconds, tool, tests = float(sys.argv[1]), sys.argv[2], sys.argv[3]
    sys.path[:0] = [tool, tests]
    import statistics_data as data
    from sdp4bit_tool import bench_results, report, stats_files, svg_plots
    from sdp4bit_tool.errors import UserError

    svg_plots.AVAILABLE = False  # matplotlib takes the time of a thousand files
    whole = data.process(
        0, 4, [data.communicator(sampled_error=data.sampled([0.1, 0.2]), classes=[data.gather_class()])]
    )
    texts = {"collective": "all_gather", "type": "bfloat16", "redop": "sum", "variant": "native"}
    row = bench_results.Row(**{each.name: texts.get(each.name, 1) for each in dataclasses.fields(bench_results.Row)})
    measured = json.loads(bench_results.to_json(bench_results.Results(False, 2, 4, "program", "2.28.9", 0, [row], False)))
    inputs = refused = 0
    end = time.process_time() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "0.json"
        while time.process_time() < end:
            chance = random.Random(inputs)
            source = measured if inputs % 4 == 0 else whole
            changed = json.loads(json.dumps(source))
            for _ in range(chance.choice((0, 1, 1, 2, 8))):
                if changed:
                    change_structure(changed, chance)
            text = json.dumps(changed).encode()
            path.write_bytes(change_text(text, chance) if chance.random() < 0.3 else text)
            inputs += 1
            try:
                if source is measured:
                    bench_results.parse_results(stats_files.load_json(path))
                else:
                    process = stats_files.parse_process(str(path), stats_files.load_json(path))
                    report.make_page([process], [], [], "title", 0)
            except (stats_files.BadFile, UserError) as error:
                refused += 1
                if len(str(error)) < 10 or not str(error).isprintable():
                    raise SystemExit(f"input {inputs - 1} is refused with {str(error)!r}") from error
            except Exception:
                print(f"input {inputs - 1}: {path.read_bytes()[:2000]!r}")
                raise
    if not 0 < refused < inputs:
        raise SystemExit(f"{refused} of {inputs} refused: the inputs say nothing")
    print(json.dumps({"fuzz": "statistics", "seconds": seconds, "inputs": inputs, "refused": refused, "findings": 0}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

# usage: check_files.py JSON METRICS: parses both strictly and compares what they say about the same run.
import json
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'


def fail(text):
    sys.exit(text)


def read_metrics(path):
    """Metrics by (name, labels); every line must be one that Prometheus takes."""
    with open(path, encoding="utf-8", newline="\n") as file:
        text = file.read()
    if not text.endswith("\n"):
        fail("the last line has no end")
    described, typed, series, current = {}, {}, {}, None
    for line in text.split("\n")[:-1]:
        if match := re.fullmatch(rf"# HELP ({NAME}) ((?:[^\\\n]|\\[\\n])*)", line):
            if match[1] in described:
                fail(f"two HELP lines: {line}")
            described[match[1]] = match[2]
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line):
            if match[1] in typed or match[1] not in described:
                fail(f"TYPE out of order: {line}")
            current = match[1]
            typed[current] = match[2]
        elif match := re.fullmatch(rf"({NAME})\{{((?:{LABEL}(?:,{LABEL})*)?)\}} (\S+)", line):
            if match[1] != current:
                fail(f"series apart from its description: {line}")
            labels = tuple(sorted((m[1], m[2]) for m in re.finditer(LABEL, match[2])))
            if len({name for name, _ in labels}) != len(labels):
                fail(f"a label twice: {line}")
            if (current, labels) in series:
                fail(f"a series twice: {line}")
            series[current, labels] = float(line.rsplit(" ", 1)[1])
            if typed[current] == "counter" and not (current.endswith("_total") and series[current, labels] >= 0):
                fail(f"not a counter: {line}")
        else:
            fail(f"no line of the format: {line}")
    return series


def find(series, name, **labels):
    found = [v for (n, pairs), v in series.items() if n == name and labels.items() <= dict(pairs).items()]
    if not found:
        fail(f"no series {name} {labels}")
    return sum(found)


def no_duplicates(pairs):
    if len({key for key, _ in pairs}) != len(pairs):
        fail(f"a key twice in {pairs}")
    return dict(pairs)


def main(json_path, metrics_path):
    with open(json_path, encoding="utf-8") as file:
        text = file.read()
    stats = json.loads(text, object_pairs_hook=no_duplicates,
                       parse_constant=lambda constant: fail(f"{constant} is no JSON"))
    if re.search(r"0x[0-9a-fA-F]{6,}", text):
        fail("an address in the file")
    series = read_metrics(metrics_path)

    if stats["schema"] != 1 or stats["job_rank"] != 5 or len(stats["communicators"]) != 4:
        fail("wrong head")
    options = {option["name"]: option for option in stats["options"]}
    if options["SDP4BIT_COMMS"]["value"] != "all" or options["SDP4BIT_COMMS"]["default"]:
        fail("options")
    if not options["SDP4BIT_SEED"]["default"]:
        fail("an option that nobody set")

    for function in ("reduce_scatter", "all_gather"):
        total = stats[function]
        if total["all_calls"] != sum(total["calls"].values()):
            fail("calls do not add up")
        for key, value in total.items():
            if key in ("calls", "last"):
                continue
            parts = sum(comm[function][key] for comm in stats["communicators"])
            if parts != value:
                fail(f"{function} {key}: communicators {parts}, process {value}")
            if key != "all_calls" and find(series, f"sdp4bit_{key}_total", collective=function) != value:
                fail(f"{function} {key}: the files differ")
        for reason, calls in total["calls"].items():
            if find(series, "sdp4bit_calls_total", collective=function, reason=reason) != calls:
                fail(f"{function} {reason}: the files differ")

    gradients, weights = stats["reduce_scatter"], stats["all_gather"]
    if gradients["calls"]["compressed"] != 12 or gradients["calls"]["not_agreed_yet"] != 12:
        fail("calls of gradients")
    if gradients["executed_calls"] != 12 or gradients["bytes_given"] != 24 * 4 * 3000 * 2:
        fail("gradients")
    if not 3 < gradients["native_bytes_between_nodes"] / gradients["sent_bytes_between_nodes"] < 4:
        fail("bytes of gradients")
    if weights["calls"]["compressed"] == 0 or weights["sends"] == 0:
        fail("weights")
    for comm in stats["communicators"]:
        if not comm["closed"] or comm["agreement"] != "on" or comm["nodes"] != 2 or comm["ranks"] != 4:
            fail("a communicator")
        (only,) = comm["classes"]
        if (only["stage"], only["slots"], only["count"], only["type"]) != ("difference", 1, 3000, "bf16"):
            fail("a class")
        if only["own_shard"] not in ("asking", "replica", "exact"):
            fail("an own shard")
        if only["differences"] != comm["all_gather"]["calls"]["compressed"]:
            fail("differences")
    print("both files are as they must be")


main(*sys.argv[1:])

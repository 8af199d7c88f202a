"""`sdp4bit report`: right numbers in the verdict, a whole page, and a useful answer to whatever files it is given."""

import html.parser
import json
import pathlib
import random
import re
import sys
import tempfile
import unittest
from unittest import mock

import statistics_data as data
import support

sys.path.insert(0, str(pathlib.Path(support.TOOL).resolve().parent))
from sdp4bit_tool import report, stats_files, svg_plots  # noqa: E402

VOID = {"meta", "br", "path", "use", "rect", "line"}


class Page(html.parser.HTMLParser):
    """Refuses what is not nested; gathers text and what the page would load."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.text, self.loads, self.svgs = [], [], [], [], 0
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "svg":
            self.svgs += 1
            assert values.get("role") == "img" and values.get("aria-labelledby"), values
        if "id" in values:
            self.ids.append(values["id"])
        self.loads += [
            value for name, value in attributes if name in ("src", "href", "xlink:href") and not value.startswith("#")
        ]

    def handle_startendtag(self, tag, attributes):
        self.loads += [
            value for name, value in attributes if name in ("src", "href", "xlink:href") and not value.startswith("#")
        ]

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, text):
        if "style" not in self.open:
            self.text.append(text)


class Report(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = self.temporary.name

    def report(self, *contents, **how):
        """Writes the contents, makes the page, and gives what was said and the page."""
        data.write(self.folder, contents, **how)
        output = pathlib.Path(self.folder) / "page.html"
        result = support.in_this_process("report", self.folder, "-o", str(output))
        self.assertEqual(result.returncode, 0, result.stderr)
        page = Page(output.read_text(encoding="utf-8"))
        self.assertEqual(page.loads, [], "the page needs other files")
        self.assertEqual(len(page.ids), len(set(page.ids)), "an id twice")
        return result, re.sub(r"\s+", " ", " ".join(page.text)), page

    def refuse(self, *words, parts=()):
        result = support.in_this_process("report", *words)
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_the_verdict_has_the_numbers_of_the_job(self):
        # 4 ranks, 100 calls each of 8 MiB: to the other node 2 MiB a call and rank; 90 of 100 at 4.25 of 16 bits.
        before = 4 * 100 * (8 << 20) / 4
        after = before * 0.1 + before * 0.9 * 4.25 / 16
        result, text, page = self.report(*[data.process(rank) for rank in range(4)])
        verdict = result.stdout.splitlines()[0]
        self.assertIn(f"sent {after / 1e6:.0f} MB between nodes instead of {before / 1e6:.0f} MB", verdict)
        self.assertIn("10 % of 400 calls were native, mostly because: below SDP4BIT_MIN_BYTES", verdict)
        self.assertIn(verdict, text)
        self.assertIn("No warnings.", text)
        self.assertIn("SDP4BIT_COMMS", text)
        if svg_plots.AVAILABLE:
            self.assertGreaterEqual(page.svgs, 4)

    def test_single_rank_of_one_node_is_a_page(self):
        only = data.communicator(ranks=1, nodes=1, gradients=data.function({"one_rank": 5}, ranks=1, nodes=1))
        result, text, _ = self.report(data.process(0, 1, [only]))
        self.assertIn(
            "Nothing was compressed in this job: 100 % of 5 calls were native, all because: a communicator of one"
            " rank",
            result.stdout,
        )

    def test_no_calls_at_all_says_what_to_do(self):
        result, text, _ = self.report(data.process(0, 4, []))
        self.assertIn("No ReduceScatter or AllGather was seen in 1 process.", result.stdout)
        self.assertIn("sdp4bit doctor", text)

    def job_of(self, ranks, communicators):
        return [
            data.process(
                rank,
                ranks,
                [
                    data.communicator(i, f"group {i}", 8, 2, rank % 8, data.function({"compressed": 5}, ranks=8))
                    for i in range(communicators)
                ],
            )
            for rank in range(ranks)
        ]

    def test_five_hundred_ranks_fit(self):
        result, text, _ = self.report(*self.job_of(512, 2))
        self.assertIn("8 ranks on 2 nodes, 64 of them", text)
        self.assertIn("every call was compressed", result.stdout)
        self.assertIn("5,120 of 5,120", text)

    def test_sixty_communicators_fit(self):
        _, text, _ = self.report(*self.job_of(8, 64))
        self.assertIn("All 64 kinds of communicators", text)
        self.assertIn("53 others" if svg_plots.AVAILABLE else "group 63", text)

    def test_broken_files_are_named_and_the_rest_is_used(self):
        good = data.process(0)
        cut = json.dumps(good)[:700]
        in_a_name = json.dumps(good)[: json.dumps(good).index("all_calls") + 3]
        result, text, _ = self.report(
            good, cut, "", "not json", {"other": 1}, {**good, "communicators": [{"ranks": "four"}]}, in_a_name
        )
        for part in (
            "rank6.json: it ends in the middle",
            "rank1.json: it ends in the middle",
            "rank2.json: it is empty",
            "rank3.json: it is no JSON (line 1",
            "rank4.json: it is JSON, but neither",
            'rank5.json: communicators[0].ranks is "four", not a whole number',
        ):
            self.assertIn(part, result.stderr)
            self.assertIn(part, text)
        self.assertIn("Missing: 1, 2, 3", text)

    def test_numbers_and_nesting_that_nothing_can_hold_are_named(self):
        good, huge = data.process(0), 10**400

        def sampled(**fields):
            return {**good, "sampled_error": {"weight_difference": fields}}

        row = dict.fromkeys(("time_us", "algbw", "busbw", "bytes", "repeat"), 1)
        row.update(collective="all_gather", type="half", redop="sum", variant="native")
        bench = {"sdp4bit_bench": 1, "nodes": 2, "gpus": 2, "rows": [{**row, "time_us": huge}]}
        cases = (
            (f'{{"schema": 1, "process": {"9" * 5000}}}', "it holds a number that is too long" if hasattr(sys, "set_int_max_str_digits") else "process is 9999"),
            (sampled(last=huge), "sampled_error.weight_difference.last is 1000"),
            (sampled(course=[1.5, huge]), "sampled_error.weight_difference.course is 1000"),
            ({**good, "process": huge}, "process is 1000"),
            ("[" * 100000, "nested too deeply"),
            (f'{{"schema": {"[" * 900}{"]" * 900}}}', "schema is [[["),
            ("\0" * 99, "it is no JSON"),
            (json.dumps(good) + "\0" * 99, "it is no JSON"),
            (bench, "rows[0].time_us is 1000"),
            ({**bench, "rows": [], "nodes": huge}, "nodes is 1000"),
        )
        result, text, _ = self.report(good, *[content for content, _ in cases])
        for number, (_, part) in enumerate(cases, 1):
            self.assertIn(f"rank{number}.json: {part}", result.stderr.replace("it is no JSON of ours: it is ", ""))
        pathlib.Path(self.folder, "latin.json").write_bytes(b'{"schema": 1, "host": "\xe9"}')
        pathlib.Path(self.folder, "endless.json").symlink_to("/dev/zero")
        with mock.patch.object(stats_files, "LARGEST_FILE", 1 << 20):
            for name, part in (("latin.json", "it is no text"), ("endless.json", "it is larger than 1 MiB")):
                with self.assertRaisesRegex(stats_files.BadFile, part):
                    stats_files.load_json(str(pathlib.Path(self.folder, name)))

    def test_a_name_in_a_file_cannot_control_the_terminal(self):
        result, _, _ = self.report(data.process(0), {**data.process(1), "reduce_scatter": {"x\ny\x1b": None}})
        self.assertIn("rank1.json: reduce_scatter.x?y? is null", result.stderr)

    def test_only_broken_files_are_one_line(self):
        data.write(self.folder, ["{\n"])
        self.refuse(self.folder, parts=("rank0.json cannot be used: it ends in the middle (line 2)",))
        data.write(self.folder, ["{", "[]"])
        self.refuse(self.folder, parts=("none of 2 files can be used", "rank0.json: it ends in the middle"))

    def test_a_later_schema_is_refused_by_name(self):
        data.write(self.folder, [data.process(0, schema=2, version="9.0")])
        self.refuse(self.folder, parts=("schema 2", "knows 1", "9.0"))

    def test_missing_files_are_one_line(self):
        self.refuse("/nowhere/*.json", parts=("/nowhere/*.json", "nothing matches it"))
        self.refuse(self.folder, parts=("holds no *.json",))
        data.write(self.folder, [data.process(0)])
        self.refuse(self.folder, "-o", "/nowhere/page.html", parts=("/nowhere/page.html cannot be written", "-o"))

    def test_versions_that_differ_are_an_alarm(self):
        _, text, _ = self.report(data.process(0), data.process(1, version="0.2.0"))
        self.assertIn("Different versions of the library: 0.1.0 (rank 0); 0.2.0 (rank 1)", text)

    def test_two_jobs_are_told_apart(self):
        first = [data.process(rank, 2) for rank in range(2)]
        second = [data.process(rank, 2, started=data.START + 900, written=data.START + 999) for rank in range(2)]
        result, text, _ = self.report(*first, *second)
        self.assertIn("The files are of 2 jobs or runs (2 processes, 2 processes)", text)
        self.assertIn("of 200 calls", result.stdout)

    def test_options_that_differ_are_named_with_their_ranks(self):
        odd = data.process(3)
        odd["options"][0] = {"name": "SDP4BIT_MIN_BYTES", "value": "2M", "default": False}
        _, text, _ = self.report(*[data.process(rank) for rank in range(3)], odd)
        self.assertIn("SDP4BIT_MIN_BYTES differs between ranks: 1M on rank 0, rank 1, rank 2; 2M on rank 3", text)

    def test_a_rank_unlike_the_others_is_named(self):
        few = [data.communicator(gradients=data.function({"compressed": 10}))]
        _, text, _ = self.report(*[data.process(rank, 8) for rank in range(7)], data.process(7, 8, few))
        self.assertIn("Unlike the others: rank 7", text)

    def test_nan_and_disagreement_are_shown(self):
        bad = data.communicator(
            name="dp",
            agreement="off",
            why="rank 3 has SDP4BIT_SEED=2, rank 0 has 1",
            gradients=data.function({"agreement_off": 50}, nonfinite_groups_sent=12),
        )
        _, text, _ = self.report(data.process(0, 1, [bad]))
        self.assertIn("Off on dp (4 ranks on 2 nodes)", text)
        self.assertIn("all because: off on their communicators (rank 3 has SDP4BIT_SEED=2, rank 0 has 1)", text)
        self.assertIn("rank 3 has SDP4BIT_SEED=2", text)
        self.assertIn("NaN or infinity in 12 groups", text)

    def test_damaged_messages_are_shown(self):
        own = data.communicator(gradients=data.function({"compressed": 5}, checksums_verified=90, checksums_failed=1))
        _, text, _ = self.report(data.process(2, 4, [own]))
        self.assertIn("1 message arrived damaged, at rank 2", text)

    def test_courses_of_different_lengths_are_drawn_together(self):
        def with_course(rank, each, points):
            own = data.communicator(
                sampled_error=data.sampled(points, each), rank=rank, gradients=data.function({"compressed": 9})
            )
            return data.process(rank, 2, [own], sampled_error=data.sampled(points, each))

        _, text, _ = self.report(with_course(0, 1, [0.16] * 33), with_course(1, 2, [0.17] * 17))
        self.assertIn("0.1652", text)
        if svg_plots.AVAILABLE:
            self.assertIn("A point is 2 sampled calls of every rank", text)

    def test_a_user_gets_a_page_with_plots(self):
        if not support.has_matplotlib():
            self.skipTest("matplotlib is missing")
        data.write(self.folder, [data.process(rank) for rank in range(4)])
        result = support.sdp4bit("report", self.folder, folder=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("The page: sdp4bit-report.html", result.stdout)
        text = (pathlib.Path(self.folder) / "sdp4bit-report.html").read_text()
        self.assertGreaterEqual(text.count("<svg"), 4)
        self.assertNotRegex(text, "#0[0-9]0[0-9]0[0-9]")  # a colour that is not the page's

    def test_without_matplotlib_the_page_says_so(self):
        before, svg_plots.AVAILABLE = svg_plots.AVAILABLE, False
        try:
            result, text, page = self.report(*[data.process(rank) for rank in range(4)])
        finally:
            svg_plots.AVAILABLE = before
        self.assertEqual(page.svgs, 0)
        self.assertIn("install python3-matplotlib", text)
        self.assertIn("install python3-matplotlib", result.stderr)

    def test_names_may_be_formulas_or_no_text_at_all(self):
        own = [
            data.communicator(i, name, gradients=data.function({"compressed": 9}), sampled_error=data.sampled([0.1]))
            for i, name in enumerate(("$\\frac$", "cost: 5$", "\udc80\u0000"))
        ]
        data.write(self.folder, [data.process(0, 4, own, sampled_error=data.sampled([0.1]))])
        result = support.sdp4bit(
            "report",
            self.folder,
            "-o",
            str(pathlib.Path(self.folder) / "page.html"),
            variables={"PYTHONIOENCODING": "latin-1"},
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("$\\frac$", (pathlib.Path(self.folder) / "page.html").read_text(encoding="utf-8"))

    def test_a_file_that_is_changed_anywhere_is_used_or_named(self):
        chance = random.Random(7)
        junk = [None, True, -1, 2**70, 0.5, float("inf"), "", "x", [], {}, [1], {"a": 1}]

        def places(value, path=()):
            yield path
            for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
                yield from places(value[key], (*path, key))

        whole = data.process(
            0, 4, [data.communicator(sampled_error=data.sampled([0.1, 0.2]), classes=[data.gather_class()])]
        )
        for _ in range(150):
            changed = json.loads(json.dumps(whole))
            *way, last = chance.choice([path for path in places(changed) if path])
            inner = changed
            for key in way:
                inner = inner[key]
            inner[last] = chance.choice(junk)
            with self.subTest(path=(*way, last), value=inner[last]):
                try:
                    process = stats_files.parse_process("file", changed)
                except stats_files.BadFile as error:
                    self.assertGreater(len(str(error)), 10)
                    continue
                before, svg_plots.AVAILABLE = svg_plots.AVAILABLE, False
                try:
                    report.make_page([process], [], [], "title", 0)
                finally:
                    svg_plots.AVAILABLE = before

    def test_processes_without_ranks_are_shown_by_their_ids(self):
        _, text, _ = self.report(*[data.process(rank, job_rank=-1, job_ranks=-1) for rank in range(2)])
        self.assertIn("No launcher told the processes their ranks", text)
        self.assertIn("process 1001 on node0", text)

    def test_one_process_with_several_devices_has_one_communicator(self):
        own = [
            data.communicator(i, "dp", rank=i, device=i, gradients=data.function({"compressed": 9})) for i in range(4)
        ]
        _, text, _ = self.report(data.process(-1, -1, own, job_rank=-1, job_ranks=-1))
        self.assertIn("dp 4 ranks on 2 nodes 36 100 %", text)

    def test_names_cannot_become_markup(self):
        name = "<script>alert(1)</script>&"
        own = data.communicator(name=name, gradients=data.function({"compressed": 9}))
        _, text, _ = self.report(data.process(0, 4, [own]))
        self.assertIn(name, text)
        self.assertNotIn("<script", (pathlib.Path(self.folder) / "page.html").read_text())


if __name__ == "__main__":
    unittest.main()

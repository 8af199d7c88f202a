"""What the study's numbers promise: gaps of the same seed, sentences that follow, results that are kept or made anew."""
from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from study_results import SOURCE, WHOLE, result, study

import runs  # noqa: E402
import tables  # noqa: E402
from curves import COLOURS  # noqa: E402
from comparison import Gap, Noise, gap, pooled  # noqa: E402
from problem import Problem  # noqa: E402
from schemes import FULL, SCHEMES, by_name  # noqa: E402
from sentences import of_study  # noqa: E402
from summary import summarize  # noqa: E402
from verdicts import failures  # noqa: E402


class Gaps(unittest.TestCase):
    def test_are_taken_seed_by_seed(self) -> None:
        found = gap([2.0, 3.0, 5.0], [1.0, 2.5, 4.0])
        self.assertEqual(found.values, (1.0, 0.5, 1.0))
        self.assertAlmostEqual(found.mean, 2.5 / 3)
        self.assertAlmostEqual(found.spread, math.sqrt(1 / 12))

    def test_of_different_numbers_of_seeds_are_refused(self) -> None:
        with self.assertRaises(ValueError):
            gap([1.0], [1.0, 2.0])

    def test_noise_pools_the_spread_about_each_mean(self) -> None:
        noise = pooled([Gap((1.0, 3.0)), Gap((10.0, 10.0))])
        self.assertEqual(noise.freedom, 2)
        self.assertAlmostEqual(noise.deviation, 1.0)
        # Two degrees of freedom: the 99 % point is 9.925.
        self.assertAlmostEqual(noise.margin(seeds=4), 9.925 / 2)
        self.assertAlmostEqual(noise.margin(seeds=4, ways=2), 9.925 / math.sqrt(2))

    def test_of_one_seed_are_not_judged(self) -> None:
        self.assertEqual(Gap((0.5,), Noise(0.0, 0).margin(1)).verdict, "not tested")

    def test_verdicts_follow_from_the_interval(self) -> None:
        self.assertEqual(Gap((0.5, 0.7), 0.5).verdict, "worse")
        self.assertEqual(Gap((-0.5, -0.7), 0.5).verdict, "better")
        self.assertEqual(Gap((0.5, 0.5), 0.5).verdict, "not distinguishable")


class Summaries(unittest.TestCase):
    def test_say_worse_only_of_what_is_clear_of_the_noise(self) -> None:
        summary = summarize(study(WHOLE))
        self.assertEqual(summary.row("direct4").gap.verdict, "worse")
        self.assertEqual(summary.row("sdp4bit").gap.verdict, "not distinguishable")
        said = " ".join(of_study(summary))
        self.assertIn("weights only, 4 bits without differences: worse than plain training", said)
        self.assertIn("sdp4bit, its defaults: not distinguishable from plain training", said)
        self.assertIn("4.00 times fewer bytes between nodes", said)

    def test_change_their_words_with_the_numbers(self) -> None:
        summary = summarize(study({**WHOLE, "sdp4bit": [1.55, 1.57, 1.56], "direct4": WHOLE["plain"]}))
        said = " ".join(of_study(summary))
        self.assertIn("sdp4bit, its defaults: worse than plain training", said)
        self.assertIn("weights only, 4 bits without differences: not distinguishable from plain training", said)

    def test_name_the_step_after_which_ranks_are_equal(self) -> None:
        row = summarize(study(WHOLE)).row("sdp4bit")
        self.assertEqual((row.equal_at_end, row.equal_from), (True, 11))
        changed = study(WHOLE)
        changed[-1]["weights"] = ["aa", "aa", "ab", "aa"]
        self.assertIn("NOT hold the same weights", of_study(summarize(changed))[-1])

    def test_of_incomplete_studies_are_refused(self) -> None:
        with self.assertRaises(Problem):
            summarize([result("sdp4bit", 1, 1.5)])
        with self.assertRaises(Problem):
            summarize([*study(WHOLE), result("gradients", 1, 1.5)])

    def test_curves_have_a_line_for_each_evaluation(self) -> None:
        lines = list(csv.DictReader(io.StringIO(tables.as_csv(summarize(study(WHOLE))))))
        self.assertEqual(len(lines), 5 * 3 * 3)
        last = lines[-1]
        self.assertEqual((last["scheme"], last["seed"], last["step"]), ("direct4", "3", "40"))
        self.assertAlmostEqual(float(last["gap_to_plain"]), 0.061)


class Verdicts(unittest.TestCase):
    def failing(self, **changes: list[float]) -> str:
        return " ".join(failures(summarize(study({**WHOLE, **changes}))))

    def test_pass_a_study_that_shows_what_it_must(self) -> None:
        self.assertEqual(self.failing(), "")

    def test_fail_where_the_whole_scheme_loses_more_than_a_seed_does(self) -> None:
        self.assertIn("sdp4bit", self.failing(sdp4bit=[1.53, 1.55, 1.54]))

    def test_pass_where_the_seeds_of_plain_training_are_close_by_chance(self) -> None:
        close = {"plain": [1.510, 1.5101, 1.5102], "weights": [1.512, 1.511, 1.512], "sdp4bit": [1.512, 1.508, 1.511]}
        self.assertEqual(self.failing(**close, control=[1.513, 1.5101, 1.5102]), "")
        self.assertIn("sdp4bit", self.failing(**{**close, "sdp4bit": [1.53, 1.53, 1.53]}, control=WHOLE["plain"]))

    def test_fail_where_direct_weights_are_not_worse(self) -> None:
        self.assertIn("direct4", self.failing(direct4=[1.560, 1.521, 1.571]))

    def test_fail_where_a_loss_is_not_finite_or_nothing_is_learnt(self) -> None:
        self.assertIn("not finite", self.failing(weights=[1.5, math.nan, 1.5]))
        self.assertIn("nothing was learnt", self.failing(weights=[1.5, 3.3, 1.5]))

    def test_fail_where_what_is_compared_was_not_in_force(self) -> None:
        for change, words in (
            (lambda facts: facts["all_gather"].update(compressed=10), "only 10 % of the calls of all_gather"),
            (lambda facts: facts["classes"][0].update(own_shard="exact"), "not in force"),
            (lambda facts: facts["classes"][0].update(stage="learning"), "not in force"),
        ):
            results = study(WHOLE)
            for found in results:
                if found["scheme"] == "weights":
                    change(found["library"])
            self.assertIn(words, " ".join(failures(summarize(results))))

    def test_fail_where_ranks_differ(self) -> None:
        results = study(WHOLE)
        results[0]["weights"][2] = "bb"
        self.assertIn("same weights", " ".join(failures(summarize(results))))


class Runs(unittest.TestCase):
    def test_of_an_earlier_session_count_only_if_nothing_changed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            libraries = Path(folder) / "build" / "sandbox" / "lib"
            libraries.mkdir(parents=True)
            for name in ("libnccl.so.2", "libcudart.so.13", "libsdp4bit.so"):
                (libraries / name).write_text(name)
            place = runs.Place(Path(folder) / "build", Path(folder), 10.0)
            plain, sdp4bit = by_name("plain"), by_name("sdp4bit")
            for scheme in (plain, sdp4bit):
                self.assertIsNone(runs.finished(place, scheme, 1, 40, 20))
                file = place.file(scheme, 1, 40)
                file.parent.mkdir(exist_ok=True)
                made_by = runs.fingerprint(place, scheme, runs.arguments_of(scheme, 1, 40, 20))
                file.write_text(json.dumps({"fingerprint": made_by}))
                self.assertIsNotNone(runs.finished(place, scheme, 1, 40, 20))
                self.assertIsNone(runs.finished(place, scheme, 1, 40, 10))
            (libraries / "libsdp4bit.so").write_text("built anew")
            self.assertIsNone(runs.finished(place, sdp4bit, 1, 40, 20))
            self.assertIsNotNone(runs.finished(place, plain, 1, 40, 20))
            place.file(plain, 1, 40).write_text("{ half a fi")
            self.assertIsNone(runs.finished(place, plain, 1, 40, 20))

    def test_of_all_schemes_differ_in_variables_or_arguments(self) -> None:
        made = [(scheme.preloaded, tuple(sorted(scheme.variables.items())), scheme.arguments) for scheme in SCHEMES]
        self.assertEqual(len(set(made)), len(made))
        self.assertGreaterEqual(len(FULL.seeds), 3)

    def test_of_all_schemes_have_a_colour_each(self) -> None:
        self.assertEqual(len(set(COLOURS)), len(COLOURS))
        self.assertGreaterEqual(len(COLOURS), len(SCHEMES))


class Documents(unittest.TestCase):
    def test_show_the_numbers_of_the_study_that_is_kept_beside_them(self) -> None:
        record = json.loads((SOURCE / "docs" / "training" / "results.json").read_text())
        summary = summarize(record["results"])
        page = (SOURCE / "docs" / "training.md").read_text()
        self.assertIn(tables.as_markdown(summary, of_study(summary)), page)
        self.assertIn(record["command"], page)
        self.assertGreaterEqual(len(summary.seeds), 3)
        self.assertEqual({row.scheme.name for row in summary.rows}, {scheme.name for scheme in SCHEMES})


class Command(unittest.TestCase):
    def said(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(SOURCE / "scripts" / "training"), *words], capture_output=True, text=True, timeout=60
        )

    def test_answers_each_mistake_with_one_line(self) -> None:
        for words, expected in (
            (("--schemes", "plain,sdp5bit"), "sdp5bit"),
            (("--seeds", "one"), "'one'"),
            (("--steps", "3"), "at least 20"),
            (("--steps", "abc"), "'abc'"),
            (("--stepps", "30"), "--stepps"),
            (("--from", "/nowhere/results.json"), "/nowhere/results.json"),
        ):
            self.check(self.said(*words), expected)

    def check(self, said: subprocess.CompletedProcess[str], expected: str) -> None:
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertEqual(len(said.stderr.splitlines()), 1, said.stderr)
        self.assertTrue(said.stderr.startswith("cannot go on: "), said.stderr)
        self.assertIn(expected, said.stderr)

    def test_answers_a_file_that_is_none_of_its_own_with_one_line(self) -> None:
        for text in ("[]", "3", "{", '{"results": 3}', '[{"scheme": "x"}]', '{"results": [{"scheme": "x"}]}',
                     '{"results": [{"scheme": "plain", "seed": 1}]}',
                     '{"results": [{"scheme": "plain", "seed": 1, "curve": []}]}'):  # fmt: skip
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(text)
                file.flush()
                self.check(self.said("--from", file.name), "not a results.json of this program")

    def test_says_what_is_missing_also_where_it_only_draws(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run(
                [sys.executable, "-S", "-I", str(SOURCE / "scripts" / "training"),
                 "--from", str(SOURCE / "docs" / "training" / "results.json"), "--out", folder],
                capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            self.check(said, "apt-get install python3-matplotlib")


if __name__ == "__main__":
    unittest.main()

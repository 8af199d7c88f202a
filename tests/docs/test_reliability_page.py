"""docs/reliability.md says what the kept figures say, those tell of no failure, and every finding has its test."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock

import built

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/reliability"))
import ctest  # noqa: E402
import page  # noqa: E402
import results  # noqa: E402

specification = importlib.util.spec_from_file_location("reliability", ROOT / "scripts/reliability/__main__.py")
assert specification and specification.loader
reliability = importlib.util.module_from_spec(specification)
specification.loader.exec_module(reliability)

RESULTS = json.loads((ROOT / "docs/reliability/results.json").read_text(encoding="utf-8"))
FINDINGS = json.loads((ROOT / "docs/reliability/findings.json").read_text(encoding="utf-8"))
FIGURES = [figures for entry in RESULTS.values() for figures in entry["figures"]]


class ReliabilityPage(unittest.TestCase):
    def test_the_page_is_made_from_the_figures(self) -> None:
        written = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
        self.assertEqual(page.markdown(RESULTS, FINDINGS), written, "make it anew: scripts/reliability.sh --page")

    def test_every_kind_has_figures(self) -> None:
        self.assertEqual({page.kind_of(figures) for figures in FIGURES}, set(page.SECTIONS))

    def test_every_table_says_where_it_is_from(self) -> None:
        for name, entry in RESULTS.items():
            self.assertRegex(entry["commit"], r"^[0-9a-f]{10}$", name)
            self.assertRegex(entry["date"], r"^\d{4}-\d\d-\d\d$", name)

    def test_no_sample_stays_beside_its_long_test(self) -> None:
        pairs = {"faults_everywhere": "faults_sampled", "fuzz_options_long": "fuzz_options", "agreement_whole": "agreement_sampled"}
        pairs.update({"faults_of_jobs_long": "faults_of_jobs", "load_long": "load_sampled"})
        for long, sample in pairs.items():
            both = {sample: results.entry("", 1, []), long: results.entry("", 2, []), "agreement_finds_x": results.entry("", 3, [])}
            self.assertEqual(set(results.without_replaced_samples(both)), {long, "agreement_finds_x"})
            self.assertEqual(results.without_replaced_samples({sample: both[sample]}), {sample: both[sample]})

    def test_faults_of_a_sample_do_not_count_twice(self) -> None:
        def entry(count: int) -> results.Entry:
            by_kind = {"fail": {"injected": count, "finished_right": 0, "ended_with_errors": count}}
            figures = {"faults": "", "settings": 7, "injected": count, "by_kind": by_kind}
            return results.entry("", 1, [figures])

        both = page.markdown({"faults_sampled": entry(2), "faults_everywhere": entry(300)}, [])
        self.assertIn("under 7 settings. 300 faults, one a run:\neach of", both)
        self.assertIn("| 300 | 0 | 300 | long |", both)
        sample = page.markdown({"faults_sampled": entry(2)}, [])
        self.assertIn("2 faults, one a run:\na sample of", sample)
        self.assertIn("| 2 | 0 | 2 | sample |", sample)

    def test_figures_that_are_not_kept_are_of_no_commit(self) -> None:
        quick = {name: {**entry, "commit": ""} for name, entry in RESULTS.items()}
        self.assertNotIn("Made on", page.markdown(quick, []))

    def test_a_passed_long_test_takes_the_place_of_its_sample(self) -> None:
        line = '7: {"fuzz": "options", "seconds": %d, "inputs": 9, "findings": 0}'
        outputs = {"fuzz_options": line % 5, "fuzz_options_long": line % 600}
        tests = [ctest.Test("fuzz_options", frozenset({"fuzz"}), False)]
        tests.append(ctest.Test("fuzz_options_long", frozenset({"fuzz", "slow"}), False))
        for passes in (True, False):
            with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
                patches.enter_context(contextlib.redirect_stdout(io.StringIO()))
                kept = pathlib.Path(folder) / "results.json"
                for where, name, value in (
                    (reliability, "RESULTS", kept),
                    (reliability, "PAGE", pathlib.Path(folder) / "page.md"),
                    (results, "commit_of", lambda _: "0123456789"),
                    (ctest, "tests_of", lambda _: tests),
                    (ctest, "run", lambda _, test: (outputs[test.name], passes or test.name == "fuzz_options")),
                ):
                    patches.enter_context(unittest.mock.patch.object(where, name, value))
                reliability.measure("", False, ["fuzz_options"])
                self.assertEqual(reliability.measure("", False, ["fuzz"]), passes)
                expected = "fuzz_options_long" if passes else "fuzz_options"
                self.assertEqual(list(results.load(kept)), [expected])
                reliability.measure("", False, ["fuzz_options"])  # the sample, once more
                self.assertEqual(list(results.load(kept)), [expected])

    def test_names_tell_which_tests_are_long(self) -> None:
        own = [test for test in ctest.tests_of(str(built.folder())) if not test.prepares]
        quick = {test.name for test in own if "slow" not in test.labels}
        for test in own:
            if test.name.startswith(page.SOURCE_BUGS):
                continue
            samples = results.samples_of(test.name)
            self.assertEqual(len(samples & quick), 1 if "slow" in test.labels else 0, f"{test.name} and its sample")

    def test_only_pages_may_differ_from_the_commit(self) -> None:
        self.assertEqual(results.measured_files(" M docs/reliability.md\nM  docs/a.md\n"), [])
        self.assertEqual(results.measured_files(" M docs/a.md\n M plugin/log.cpp\n"), ["plugin/log.cpp"])

    def test_no_figure_tells_of_a_failure(self) -> None:
        for figures in FIGURES:
            for name in ("findings", "violations", "silent_nan", "other_numbers"):
                self.assertEqual(figures.get(name, 0), 0, figures)
            self.assertEqual(figures.get("mistakes_found"), figures.get("mistakes"))
            for kind, count in figures.get("by_kind", {}).items():
                self.assertIn(kind, page.FAULTS)
                self.assertEqual(count["injected"], count["finished_right"] + count["ended_with_errors"], kind)

    def test_every_finding_has_its_test(self) -> None:
        files = [path for folder in ("tests", "sandbox") for path in (ROOT / folder).rglob("*")]
        sources = [path for path in files if path.suffix in (".cpp", ".txt", ".py")]
        text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
        for finding in FINDINGS:
            self.assertTrue(finding["kept_by"], finding)
            for name in finding["kept_by"]:
                if "/" in name:
                    self.assertTrue((ROOT / name).exists(), name)
                else:
                    self.assertRegex(text, r"(?<![\w.])" + re.escape(name) + r"(?![\w.])", name)


if __name__ == "__main__":
    unittest.main()

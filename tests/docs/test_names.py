"""Tests that the pages name as evidence exist."""

import re
import unittest

import built
import pages

CASE = re.compile(r"^[A-Z][A-Za-z]+\.[A-Z][A-Za-z0-9]+$")
# Of CTest: those of folders that pages speak of.
CTEST = re.compile(r"^(?:preload|collectives|traces|kernels|docs|program|statistics)_[a-z0-9_]+$")


class Names(unittest.TestCase):
    def test_every_test_that_a_page_names_exists(self) -> None:
        cases = {
            name
            for path in (pages.ROOT / "tests").rglob("*.cpp")
            for name in re.findall(r'TEST_CASE\(\s*"([^"]+)"', path.read_text(encoding="utf-8"))
        }
        self.assertGreater(len(cases), 200)
        wrong, seen = [], 0
        for page in pages.all_pages():
            for line, span in page.code_spans():
                if CASE.match(span) and span not in cases:
                    wrong.append(f"{page.path}:{line}: {span}")
                # tests/README.md may leave the end of a name out, and has a test of its own.
                if CTEST.match(span) and page.path != "tests/README.md":
                    if span not in built.ctest_names() and not span.endswith("_total"):
                        wrong.append(f"{page.path}:{line}: {span}")
                seen += bool(CASE.match(span))
        self.assertGreater(seen, 100)
        self.assertEqual(wrong, [])

    def test_every_label_of_a_test_is_explained(self) -> None:
        page = (pages.ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
        explained = set(re.findall(r"^\| (\w+) \| ", page, re.MULTILINE))
        labels = {label for of_test in built.ctest_tests().values() for label in of_test}
        self.assertGreater(len(labels), 8)
        self.assertEqual(sorted(labels - explained), [])
        self.assertEqual([name for name, of_test in built.ctest_tests().items() if not of_test], [])


if __name__ == "__main__":
    unittest.main()

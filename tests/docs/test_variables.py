"""Variables that the pages name exist, and the values that they are given are ones that the library takes."""

from __future__ import annotations

import re
import unittest

import built
import pages

NAME = re.compile(r"(?<![\w-])(?<!-D)SDP4BIT_[A-Z0-9][A-Z0-9_]*\b(?!\*)")
# In a shell a value ends at a blank or a quote, in prose also at the end of the code.
SETTING = re.compile(r"(?<![\w-])(?<!-D)(SDP4BIT_[A-Z0-9_]+)=(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s`\"';|&)]*))")
# Says that any value may stand there.
PLACEHOLDER = re.compile(r"[$<>{}]|\.\.\.|^$|^[A-Z]+$|^[a-z]$")


class Variables(unittest.TestCase):
    def setUp(self) -> None:
        self.pages = pages.all_pages()

    def test_the_library_knows_its_variables(self) -> None:
        self.assertGreater(len(built.variables()), 25)
        self.assertTrue(built.accepts("SDP4BIT_ENABLE", "0"))
        self.assertFalse(built.accepts("SDP4BIT_ENABLE", "perhaps"))

    def found(self, expression: re.Pattern[str]) -> list[tuple[str, str, re.Match[str]]]:
        """(place, text, match) of everything that matches, in all pages."""
        return [
            (f"{page.path}:{line + text.count(chr(10), 0, match.start())}", text, match)
            for page in self.pages
            for line, text in page.texts()
            for match in expression.finditer(text)
        ]

    def test_every_variable_that_a_page_names_exists(self) -> None:
        known = built.variables() | built.cmake_options()
        wrong = []
        for place, text, match in self.found(NAME):
            name = match[0].rstrip("_")
            group = match[0].endswith("_") or text[match.end() : match.end() + 2] in ("_*", "*`")
            if name not in known and not (group and any(each.startswith(match[0]) for each in known)):
                wrong.append(f"{place}: {name}")
        self.assertEqual(wrong, [])

    def test_every_value_that_a_page_sets_is_accepted(self) -> None:
        wrong, seen = [], 0
        for place, _, match in self.found(SETTING):
            name = match[1]
            value = next((group for group in match.groups()[1:] if group is not None), "").rstrip(".,:")
            value = value.replace("\\>", ">")
            if name not in built.variables() or PLACEHOLDER.search(value.split(":")[-1]):
                continue
            seen += 1
            if not built.accepts(name, value):
                wrong.append(f"{place}: {name}={value} would be refused")
        self.assertGreater(seen, 20)
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()

"""docs/wire_format.md shows the header and the flags that kernels/wire_format.h defines."""

import re
import unittest

import pages

BYTES = {"std::uint16_t": 2, "MessageKind": 2, "std::uint32_t": 4, "std::uint64_t": 8}


class WirePage(unittest.TestCase):
    def setUp(self) -> None:
        self.header = (pages.ROOT / "kernels/wire_format.h").read_text(encoding="utf-8")
        self.page = (pages.ROOT / "docs/wire_format.md").read_text(encoding="utf-8")

    def numbers(self, enumeration: str) -> set[int]:
        body = re.search(rf"enum (?:class )?{enumeration} [^{{]*{{(.*?)}};", self.header, re.DOTALL)[1]
        return {int(number) for number in re.findall(r"\w+ = (\d+)", body)}

    def row(self, name: str) -> str:
        return re.search(rf"^\| \d+ \| \d+ \| {name} \|(.*)\|$", self.page, re.MULTILINE)[1]

    def test_fields_lie_where_the_page_says(self) -> None:
        body = re.search(r"struct MessageHeader {(.*?)};", self.header, re.DOTALL)[1]
        sizes = [BYTES[kind] for kind in re.findall(r"^\s+([\w:]+) \w+;", body, re.MULTILINE)]
        places = [(sum(sizes[:at]), size) for at, size in enumerate(sizes)]
        shown = [(int(at), int(size)) for at, size in re.findall(r"^\| (\d+) \| (\d+) \|", self.page, re.MULTILINE)]
        self.assertEqual(shown, places)
        self.assertEqual(sum(sizes), 64)

    def test_every_kind_and_every_flag_has_its_number(self) -> None:
        for row, enumeration in (("kind", "MessageKind"), ("flags", "WeightFlag")):
            shown = {int(number) for number in re.findall(r"(?:^|[ ,])(\d+) [a-z]", self.row(row))}
            self.assertEqual(shown, self.numbers(enumeration), row)

    def test_the_version_is_the_libraries(self) -> None:
        version = re.search(r"kWireVersion = (\d+)", self.header)[1]
        self.assertIn(f"Version {version}.", self.page)
        self.assertEqual(self.row("wire version").strip(), version)


if __name__ == "__main__":
    unittest.main()

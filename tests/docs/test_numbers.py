"""Numbers that pages state are those of the source."""

import re
import subprocess
import unittest

import built
import pages

# Where a constant is, and how pages write it: {} is its value.
FACTS = (
    ("plugin/weight_class.h", r"first_exam = (\d+)", "docs/agreement.md", "**Exams** are at {}, 8, 16"),
    ("plugin/weight_class.h", r"large_exam = (\d+)", "docs/agreement.md", "from exam {} on"),
    ("plugin/weight_class.h", r"last_exam = (\d+)", "docs/agreement.md", "exam {} without a pass"),
    ("plugin/weight_class.h", r"jumps_in_window = (\d+)", "docs/agreement.md", "or in more than {} of 64"),
    ("kernels/weight_header.h", r"difference \* (\d+) <= weight \? kSmall", "docs/agreement.md", "at most 1/{} of that"),
    ("kernels/weight_header.h", r"difference \* (\d+) <= weight \? 0u : kJump", "docs/agreement.md", "it is above 1/{}"),
    ("plugin/ledger.h", r"kMostSamples = (\d+)", "docs/choosing_settings.md", "for at most {} buffers"),
    ("plugin/handshake.h", r"sizeof\(HandshakeRecord\) == (\d+)", "docs/agreement.md", "one AllGather of {:,} bytes"),
    ("plugin/health_schedule.h", r"kPeriod = (\d+);", "docs/agreement.md", "every {}th"),
    ("plugin/health_schedule.h", r"kLag = (\d+);", "docs/agreement.md", "read {} calls later"),
    ("plugin/health_schedule.h", r"kFirstPause = (\d+);", "docs/agreement.md", "native for {:,} calls"),
    ("plugin/health_schedule.h", r"kFirstPause = (\d+);", "docs/log.md", "tried again after {:,} calls"),
    ("plugin/all_gather.cpp", r"kMostClasses = (\d+);", "docs/agreement.md", "are a **class** ({} at most)"),
    ("plugin/bounded_wait.cpp", r"minutes\((\d+)\)", "docs/agreement.md", "ends after {} minutes"),
    ("plugin/options.h", r"watchdog = (\d+);", "docs/log.md", "`SDP4BIT_WATCHDOG` seconds ({})"),
    ("plugin/options.h", r"workspace = (\d+) << 20", "docs/choosing_settings.md", "`SDP4BIT_WORKSPACE`, {} MiB"),
    ("plugin/options.h", r"percent = (\d+);", "docs/choosing_settings.md", "`SDP4BIT_WEIGHT_MEMORY` is {} %"),
)


class Numbers(unittest.TestCase):
    def test_numbers_of_the_pages_are_those_of_the_source(self) -> None:
        text = {page.path: " ".join(page.prose.split()) for page in pages.all_pages()}
        wrong = []
        for path, expression, page, sentence in FACTS:
            found = re.search(expression, (pages.ROOT / path).read_text(encoding="utf-8"))
            if found is None:
                wrong.append(f"{path}: nothing is {expression}")
                continue
            stated = sentence.format(int(found[1]))
            if stated not in text[page]:
                wrong.append(f"{page}: does not say: {stated}")
        self.assertEqual(wrong, [])

    def test_the_table_of_least_sizes_is_what_the_library_works_out(self) -> None:
        program = built.folder() / "tests" / "host" / "plugin" / "host_plugin"
        printed = subprocess.run(
            [program, "BreakEven.WithTheDefaultsAllTopologiesPayFromSomeMegabytesOn"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        table = "\n".join(line for line in printed.splitlines() if line.startswith("|"))
        self.assertIn("| 2 x 8 |", table)
        self.assertIn(table, (pages.ROOT / "docs" / "choosing_settings.md").read_text(encoding="utf-8"))

    def test_the_table_of_launches_is_what_the_test_of_launches_expects(self) -> None:
        source = (pages.ROOT / "tests" / "collectives" / "hot_path" / "test_launches.cpp").read_text(encoding="utf-8")
        rows = re.findall(r'\{"([^"]+)",\s*k\w+,.*?\{(\d+), (\d+), (\d+), (\d+), (\d+), (\d+)\}\}', source, re.DOTALL)
        self.assertGreater(len(rows), 10)
        table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
        self.assertIn(table, (pages.ROOT / "docs" / "performance.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()

"""`sdp4bit bench --emulated`, as a user runs it: real bytes, labelled times, and a result that `report` takes."""

import json
import pathlib
import tempfile
import unittest

import support


class Emulated(unittest.TestCase):
    def test_bytes_are_those_of_the_formats_and_times_are_labelled(self):
        with tempfile.TemporaryDirectory() as folder:
            output = str(pathlib.Path(folder) / "bench.json")
            result = support.sdp4bit("bench", "--emulated", "--nodes", "2", "--gpus", "2", "--begin", "256K", "--end", "256K", "--iterations", "2",
                                     "--warmup", "14", "-o", output, variables={"SDP4BIT_MIN_BYTES": "0"}, seconds=200)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("Byte counts and errors are real, times are not.", result.stdout)
            self.assertNotIn("did not say that it works", result.stderr)
            found = json.loads(pathlib.Path(output).read_text())
            self.assertTrue(found["emulated"])
            sent = {(row["collective"], row["variant"]): row["bytes_between_nodes"] for row in found["rows"]}
            # A rank sends a quarter of the buffer to the other node: 16 bits an element, 4.25, and 4.016 and a header.
            self.assertEqual(sent["reduce_scatter", "native"], 65536)
            self.assertAlmostEqual(sent["reduce_scatter", "sdp4bit"] / 65536, 4.25 / 16, delta=0.01)
            self.assertAlmostEqual(sent["all_gather", "sdp4bit"] / 65536, 4.016 / 16, delta=0.01)
            page = support.sdp4bit("report", output, "-o", str(pathlib.Path(folder) / "page.html"))
            self.assertEqual(page.returncode, 0, page.stderr)
            self.assertIn("times are not: this was the emulated cluster", page.stdout)


if __name__ == "__main__":
    unittest.main()

"""`sdp4bit options`: the library's own table, values in force with their origin, and mistakes in the environment."""

import json
import pathlib
import re
import unittest

import support
from support import sdp4bit

LIBRARY, PAGE = support.take_arguments(2)


def table(*words, **variables):
    result = sdp4bit("options", "--library", LIBRARY, "--json", *words, variables=variables)
    return result, json.loads(result.stdout)


class Options(unittest.TestCase):
    def test_rows_are_those_of_the_documentation_and_of_the_library(self):
        result, answer = table()
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        documented = re.findall(r"^\| (SDP4BIT_\w+) \| (.*?) \| (yes|no) \| (.*?) \| (.*) \|$",
                                pathlib.Path(PAGE).read_text(encoding="utf-8"), re.MULTILINE)
        said = [(row["name"], row["default"] or "-", "yes" if row["equal_on_all_ranks"] else "no", row["accepted"],
                 row["meaning"]) for row in answer["options"]]
        self.assertEqual(said, documented)
        self.assertGreater(len(said), 25)

    def test_values_in_force_have_their_origin(self):
        _, answer = table(SDP4BIT_MIN_BYTES="4096K")
        rows = {row["name"]: row for row in answer["options"]}
        self.assertEqual(rows["SDP4BIT_MIN_BYTES"]["value"], "4M")
        self.assertEqual(rows["SDP4BIT_MIN_BYTES"]["given"], "4096K")
        self.assertEqual(rows["SDP4BIT_MIN_BYTES"]["origin"], "environment")
        self.assertEqual(rows["SDP4BIT_SEED"]["origin"], "default")
        self.assertEqual(answer["complaints"], [])

    def test_what_a_preset_chose_says_so_and_what_is_set_beside_it_wins(self):
        _, answer = table(SDP4BIT_PRESET="paper", SDP4BIT_GRAD_GROUP="64", SDP4BIT_WEIGHT_GROUP="many")
        found = {row["name"]: (row["value"], row["origin"]) for row in answer["options"]}
        self.assertEqual(found["SDP4BIT_PRESET"], ("paper", "environment"))
        self.assertEqual(found["SDP4BIT_CODEC_INTER"], ("int4-sr", "preset"))
        self.assertEqual(found["SDP4BIT_CODEC_INTRA"], ("int8-sr", "default"))
        self.assertEqual(found["SDP4BIT_GRAD_GROUP"], ("64", "environment"))
        self.assertEqual(found["SDP4BIT_WEIGHT_GROUP"], ("2048", "refused"))
        said = sdp4bit("options", "--library", LIBRARY, variables={"SDP4BIT_PRESET": "paper"}).stdout
        self.assertIn("SDP4BIT_CODEC_INTER=int4-sr  (preset; default dither4)", said)

    def test_a_bad_value_and_an_unknown_name_are_said(self):
        result, answer = table(SDP4BIT_SEED="4bits", SDP4BIT_MINBYTES="1")
        self.assertEqual(result.returncode, 1)
        self.assertEqual([row["origin"] for row in answer["options"] if row["name"] == "SDP4BIT_SEED"], ["refused"])
        refused, unknown = answer["complaints"]
        for part in ("SDP4BIT_SEED", '"4bits"', "a number", 'in force is "1"'):
            self.assertIn(part, refused)
        self.assertIn("SDP4BIT_MINBYTES", unknown)
        self.assertIn("the nearest is SDP4BIT_MIN_BYTES", unknown)

    def test_the_text_says_the_same_and_complains_once(self):
        result = sdp4bit("options", "--library", LIBRARY, variables={"SDP4BIT_SEED": "4bits", "SDP4BIT_LOG": "trace"})
        self.assertEqual(result.returncode, 1)
        self.assertIn('SDP4BIT_SEED=1  (default, "4bits" was refused)', result.stdout)
        self.assertIn("SDP4BIT_LOG=trace  (environment; default warn)", result.stdout)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_single_options_in_any_spelling(self):
        for name in ("SDP4BIT_MIN_BYTES", "MIN_BYTES", "min-bytes"):
            result, answer = table(name)
            self.assertEqual([row["name"] for row in answer["options"]], ["SDP4BIT_MIN_BYTES"], result)
        result = sdp4bit("options", "--library", LIBRARY, "min-byte")
        self.assertEqual(result.returncode, 2)
        self.assertIn("the nearest is SDP4BIT_MIN_BYTES", result.stderr)

    def test_only_what_is_set(self):
        _, answer = table("--set", SDP4BIT_LOG="warn")
        self.assertEqual([row["name"] for row in answer["options"]], ["SDP4BIT_LOG"])
        result = sdp4bit("options", "--library", LIBRARY, "--set")
        self.assertIn("no SDP4BIT_* variable is set", result.stdout)


if __name__ == "__main__":
    unittest.main()

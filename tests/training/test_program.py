"""What the example's parts promise, without torch: its text, its shards, its launcher."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "05_train_gpt"
sys.path.insert(0, str(EXAMPLE))

import sharding  # noqa: E402
import text  # noqa: E402


class Text(unittest.TestCase):
    def test_is_the_same_for_the_same_seed_and_another_for_another(self) -> None:
        self.assertEqual(text.make_text(3, 5000), text.make_text(3, 5000))
        self.assertNotEqual(text.make_text(3, 5000), text.make_text(4, 5000))

    def test_of_a_longer_one_the_beginning_is_the_shorter_one(self) -> None:
        self.assertEqual(text.make_text(1, 9000)[:4000], text.make_text(1, 4000))

    def test_has_only_letters_of_its_alphabet_and_uses_all(self) -> None:
        made = text.make_text(1, 100_000)
        self.assertEqual(len(made), 100_000)
        self.assertEqual(set(made) - set(text.ALPHABET), set())
        self.assertGreater(len(set(made)), len(text.ALPHABET) - 4)

    def test_every_letter_has_its_own_code(self) -> None:
        self.assertEqual(list(text.encode(text.ALPHABET)), list(range(len(text.ALPHABET))))

    def test_sums_in_words_are_right(self) -> None:
        numbers = {word: number for number, word in enumerate("zero one two three four five six seven eight nine ten".split())}
        sums = re.findall(r"\b(\w+) and (\w+) are (\w+)\b", text.make_text(1, 50_000)[:-100])
        self.assertGreater(len(sums), 50)
        for first, second, total in sums:
            self.assertEqual(numbers[first] + numbers[second], numbers[total])


class Shards(unittest.TestCase):
    def test_cover_every_parameter_once_and_none_crosses_a_bucket(self) -> None:
        for sizes in ([1], [5, 7, 100_000, 3], [128] * 40, [999, 1, 128, 2048, 17]):
            for world in (1, 2, 4, 6):
                for buckets in (1, 2, 3, 50):
                    layout = sharding.lay_out(sizes, world, buckets)
                    self.assertLessEqual(len(layout.buckets), buckets)
                    end = 0
                    for bucket in layout.buckets:
                        self.assertEqual(bucket.start, end)
                        self.assertEqual(bucket.shard % sharding.ALIGNMENT, 0)
                        owned = [bucket.own(rank) for rank in range(world)]
                        self.assertEqual([part.start for part in owned], [end + rank * bucket.shard for rank in range(world)])
                        self.assertEqual(owned[-1].stop, bucket.end)
                        end = bucket.end
                    self.assertEqual(layout.elements, end)
                    taken: set[int] = set()
                    for size, part in zip(sizes, layout.parameters):
                        self.assertEqual(part.stop - part.start, size)
                        self.assertTrue(any(bucket.start <= part.start and part.stop <= bucket.end for bucket in layout.buckets))
                        taken.update((part.start, part.stop - 1))
                    starts = [part.start for part in layout.parameters]
                    self.assertEqual(starts, sorted(starts))
                    for before, after in zip(layout.parameters, layout.parameters[1:]):
                        self.assertLessEqual(before.stop, after.start)

    def test_padding_is_less_than_one_unit_a_bucket(self) -> None:
        layout = sharding.lay_out([1000, 5000, 300], 4, 2)
        self.assertLess(layout.elements - 6300, 2 * 4 * sharding.ALIGNMENT)

    def test_nothing_to_place_is_refused(self) -> None:
        for sizes, world, buckets in (([], 2, 1), ([0], 2, 1), ([5], 0, 1), ([5], 2, 0)):
            with self.assertRaises(ValueError):
                sharding.lay_out(sizes, world, buckets)


class Program(unittest.TestCase):
    def test_knows_nothing_of_the_library(self) -> None:
        for file in EXAMPLE.glob("*.py"):
            self.assertNotIn("sdp4bit", file.read_text().lower(), file.name)

    def test_a_missing_build_is_one_line_and_an_error(self) -> None:
        said = subprocess.run(
            [sys.executable, str(EXAMPLE / "ranks.py"), "--build", "/nowhere"], capture_output=True, text=True, timeout=30
        )
        self.assertNotEqual(said.returncode, 0)
        self.assertEqual(len(said.stderr.splitlines()), 1)
        self.assertIn("/nowhere", said.stderr)

    def test_numbers_that_are_none_are_one_line_and_an_error(self) -> None:
        for words in (("--nodes", "0"), ("--ranks-per-node", "two")):
            said = subprocess.run([sys.executable, str(EXAMPLE / "ranks.py"), *words], capture_output=True, text=True, timeout=30)
            self.assertEqual(said.returncode, 2)
            self.assertEqual(len(said.stderr.splitlines()), 1, said.stderr)
            self.assertIn(words[0], said.stderr)

    def test_without_torch_it_says_so_in_one_line(self) -> None:
        said = subprocess.run(
            [sys.executable, "-S", "-E", "-I", str(EXAMPLE / "train.py")], capture_output=True, text=True, timeout=30,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        self.assertNotEqual(said.returncode, 0)
        self.assertEqual(len(said.stderr.splitlines()), 1)
        self.assertIn("python3-torch", said.stderr)


if __name__ == "__main__":
    unittest.main()

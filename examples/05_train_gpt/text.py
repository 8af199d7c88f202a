"""The text that is learnt: an artificial language, made by a seeded generator.

Words are made of syllables and used as unevenly as those of real languages (Zipf). Sentences have a grammar: articles
and verbs agree with their noun in number, each word prefers some followers, a paragraph keeps to a few subjects, and
sums are stated in words and are right. A small model first learns letters, then words, then grammar, then who follows
whom, so its loss falls for much longer than a few hundred steps.
"""
from __future__ import annotations

import random
from itertools import accumulate

ALPHABET = "\n ,.abcdefghijklmnopqrstuvwxyz"

_ONSETS = "b d f g h j k l m n p r s t v w z br dr fl gr kl pr sk st tr".split()
_VOWELS = "a e i o u ai ei ou".split()
_CODAS = ["", "", "", "l", "m", "n", "r", "s", "t", "nd", "rk"]
_NUMBERS = "zero one two three four five six seven eight nine ten".split()


class _Words:
    """Words of one class, the frequent ones first; each is preferred by some of those before it."""

    def __init__(self, chance: random.Random, count: int, ending: str) -> None:
        self.words: list[str] = []
        known: set[str] = set()
        while len(self.words) < count:
            syllables = 1 if len(self.words) < count // 8 else chance.choice((1, 2, 2, 3))
            word = "".join(chance.choice(_ONSETS) + chance.choice(_VOWELS) for _ in range(syllables))
            word += chance.choice(_CODAS) + ending
            if word not in known:
                known.add(word)
                self.words.append(word)
        self.weights = list(accumulate(1.0 / (place + 3) for place in range(count)))

    def draw(self, chance: random.Random) -> int:
        return chance.choices(range(len(self.words)), cum_weights=self.weights)[0]

    def follower(self, chance: random.Random, before: int) -> int:
        """Three times of four one of four words that belong to `before`, else any."""
        if chance.random() < 0.75:
            return (before * 31 + chance.choice((3, 11, 17, 29)) * (before % 7 + 1)) % len(self.words)
        return self.draw(chance)


def _sentence(chance: random.Random, nouns: _Words, verbs: _Words, qualities: _Words, subjects: list[int]) -> str:
    if chance.random() < 0.08:
        first = chance.randrange(6)
        second = chance.randrange(5)
        return f"{_NUMBERS[first]} and {_NUMBERS[second]} are {_NUMBERS[first + second]}"

    def noun_phrase(noun: int, plural: bool) -> str:
        words = ["dei" if plural else "da"]
        if chance.random() < 0.4:
            words.append(qualities.words[qualities.follower(chance, noun)])
        words.append(nouns.words[noun] + ("en" if plural else ""))
        return " ".join(words)

    subject = chance.choice(subjects)
    plural = chance.random() < 0.4
    verb = verbs.follower(chance, subject)
    text = noun_phrase(subject, plural) + " " + verbs.words[verb] + ("un" if plural else "it")
    if chance.random() < 0.7:
        text += " " + noun_phrase(nouns.follower(chance, verb), chance.random() < 0.4)
    if chance.random() < 0.3:
        again = verbs.follower(chance, verb)
        text += f", ka {verbs.words[again]}" + ("un" if plural else "it")
    return text


def make_text(seed: int, characters: int) -> str:
    """`characters` characters of the language; the same seed gives the same text on every machine."""
    language = random.Random(20241026)  # the language itself is one for all seeds
    nouns, verbs, qualities = (_Words(language, count, ending) for count, ending in ((400, ""), (200, "a"), (150, "o")))
    chance = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < characters:
        subjects = [nouns.draw(chance) for _ in range(3)]
        sentences = [_sentence(chance, nouns, verbs, qualities, subjects) for _ in range(chance.randint(4, 8))]
        paragraph = ". ".join(sentences) + ".\n"
        parts.append(paragraph)
        length += len(paragraph)
    return "".join(parts)[:characters]


def encode(text: str) -> bytes:
    """One byte a character: its place in ALPHABET."""
    return text.translate(str.maketrans(ALPHABET, "".join(map(chr, range(len(ALPHABET)))))).encode("ascii")


if __name__ == "__main__":
    print(make_text(1, 2000))

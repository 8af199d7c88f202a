"""Which sequences a rank sees: a function of seed, step and place, so that any two runs can be given the same."""
from __future__ import annotations

import torch

import text

TRAINING_CHARACTERS = 500_000
VALIDATION_CHARACTERS = 40_000


class Data:
    """Training text is drawn from at random, validation text is cut into sequences that do not overlap."""

    def __init__(self, context: int, device: torch.device) -> None:
        self.context = context
        self.device = device
        whole = text.encode(text.make_text(1, TRAINING_CHARACTERS + VALIDATION_CHARACTERS))
        letters = torch.frombuffer(bytearray(whole), dtype=torch.uint8).long()
        self.training = letters[:TRAINING_CHARACTERS]
        validation = letters[TRAINING_CHARACTERS:]
        sequences = (len(validation) - 1) // context
        starts = torch.arange(sequences) * context
        self.validation = self._cut(validation, starts)

    def _cut(self, letters: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        return letters[starts[:, None] + torch.arange(self.context + 1)].to(self.device)

    def batch(self, seed: int, step: int, place: int, sequences: int) -> torch.Tensor:
        """(sequences, context + 1) letters for one of the places among which a step's data is divided."""
        chance = torch.Generator().manual_seed((seed * 1_000_003 + step) * 1_009 + place)
        starts = torch.randint(len(self.training) - self.context - 1, (sequences,), generator=chance)
        return self._cut(self.training, starts)

    def validation_part(self, rank: int, world: int, sequences: int) -> torch.Tensor:
        """This rank's part of the first `sequences` of the validation text (0: of all)."""
        return self.validation[: sequences or None][rank::world]

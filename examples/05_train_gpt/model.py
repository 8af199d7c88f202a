"""The model: a small GPT over characters."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; the defaults give 0.41 million parameters."""

    letters: int
    width: int = 128
    layers: int = 2
    heads: int = 4
    context: int = 64


class _Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.before_attention = nn.LayerNorm(shape.width)
        self.attention = nn.Linear(shape.width, 3 * shape.width)
        self.attention_out = nn.Linear(shape.width, shape.width)
        self.before_mlp = nn.LayerNorm(shape.width)
        self.mlp = nn.Linear(shape.width, 4 * shape.width)
        self.mlp_out = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.attention(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5 + mask
        mixed = (scores.softmax(-1).to(value.dtype) @ value).transpose(1, 2).reshape(batch, length, width)
        x = x + self.attention_out(mixed)
        return x + self.mlp_out(functional.gelu(self.mlp(self.before_mlp(x))))


class Gpt(nn.Module):
    """Letters in, scores of the next letter out. The same seed of torch gives the same weights."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.letters = nn.Embedding(shape.letters, shape.width)
        self.places = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.layers))
        self.before_head = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.letters, bias=False)
        self.register_buffer("mask", torch.full((shape.context, shape.context), float("-inf")).triu(1))
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                deeper = (2 * shape.layers) ** -0.5 if name.endswith("_out.weight") else 1.0
                nn.init.normal_(parameter, std=0.02 * deeper)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        x = self.letters(letters) + self.places.weight[: letters.shape[1]]
        mask = self.mask[: letters.shape[1], : letters.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.before_head(x))

    def loss(self, sequences: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        """Cross entropy of each letter but the first of `sequences` (number, context + 1), in nats."""
        scores = self(sequences[:, :-1]).float()
        return functional.cross_entropy(scores.flatten(0, 1), sequences[:, 1:].flatten(), reduction=reduction)

"""Token numbers for training: a memory-mapped file, or synthetic sequences that a model can learn.

Which sequences a step sees follows from how many were seen before it, so that any topology sees the same.
"""

from __future__ import annotations

from pathlib import Path

import torch
from model import Shape
from torch import Tensor

MASKED_SHARE, IGNORED = 0.15, -100


class Tokens:
    """`file` holds token numbers one after another: 16 bits each, unsigned, if the vocabulary allows, else 32."""

    def __init__(self, file: str, shape: Shape, sequence: int, seed: int) -> None:
        self.shape, self.length, self.seed = shape, sequence + shape.causal, seed
        self.tokens: Tensor | None = None
        if file != "synthetic":
            kind, width = (torch.uint16, 2) if shape.vocab <= 1 << 16 else (torch.int32, 4)
            self.tokens = torch.from_file(file, shared=False, size=Path(file).stat().st_size // width, dtype=kind)
            if len(self.tokens) < self.length:
                raise SystemExit(f"{file} holds {len(self.tokens)} tokens, and one sequence needs {self.length}")

    def batch(self, first: int, count: int) -> tuple[Tensor, Tensor]:
        """Inputs and labels, (count, sequence) each, of the sequences from number `first` on."""
        rows = torch.stack([self._row(number) for number in range(first, first + count)])
        if self.shape.causal:
            return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        return self._masked(rows, first)

    def _row(self, number: int) -> Tensor:
        if self.tokens is None:  # an arithmetic progression, its start and step drawn from the number
            start, step = torch.randint(self.shape.vocab, (2,), generator=self._dice(number)).tolist()
            return (start + (step % 7 + 1) * torch.arange(self.length)) % self.shape.vocab
        at = number % (len(self.tokens) // self.length) * self.length
        return self.tokens[at : at + self.length].to(torch.int64)

    def _masked(self, rows: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """BERT's task, with the same number of masked words in every sequence."""
        count, mask = max(1, int(self.length * MASKED_SHARE)), min(103, self.shape.vocab - 1)  # 103 is BERT's [MASK]
        labels, inputs = torch.full_like(rows, IGNORED), rows.clone()
        for row in range(len(rows)):
            chosen = torch.randperm(self.length, generator=self._dice(first + row))[:count]
            labels[row, chosen] = rows[row, chosen]
            inputs[row, chosen] = mask
        return inputs, labels

    def _dice(self, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed * 1_000_003 + number)

"""Two shapes of transformer: Llama (causal, its parameters named as Hugging Face names them) and BERT (masked words).

Neither has dropout, and BERT has no next-sentence head: what stays is what a layout can get wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """A model as parallel.json describes it; `family` is llama or bert, `positions` BERT's learned ones."""

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    positions: int = 0
    tied: bool = False
    rope_theta: float = 500_000.0
    norm_eps: float = 1e-5

    @property
    def causal(self) -> bool:
        """Whether a token sees only those before it."""
        return self.family == "llama"

    def norm(self) -> nn.Module:
        """The family's normalisation."""
        return (nn.RMSNorm if self.causal else nn.LayerNorm)(self.hidden, eps=self.norm_eps)


@lru_cache(maxsize=4)
def rotation(length: int, width: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the rotary embedding, one row a position, in the half-split form of Hugging Face."""
    speed = theta ** (-torch.arange(0, width, 2, device=device, dtype=torch.float32) / width)
    angle = torch.outer(torch.arange(length, device=device, dtype=torch.float32), speed).repeat(1, 2)
    return angle.cos(), angle.sin()


def rotated(x: Tensor, theta: float) -> Tensor:
    """`x` is (batch, heads, positions, width)."""
    cos, sin = rotation(x.shape[-2], x.shape[-1], theta, x.device)
    left, right = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-right, left), dim=-1) * sin).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention. Under tensor parallelism each rank holds some of the heads; hence the -1."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, self.width = shape, shape.hidden // shape.heads
        few, bias = self.width * shape.kv_heads, not shape.causal
        self.q_proj = nn.Linear(shape.hidden, shape.hidden, bias=bias)
        self.k_proj = nn.Linear(shape.hidden, few, bias=bias)
        self.v_proj = nn.Linear(shape.hidden, few, bias=bias)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            projection(x).unflatten(-1, (-1, self.width)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.shape.causal:
            q, k = rotated(q, self.shape.rope_theta), rotated(k, self.shape.rope_theta)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """SwiGLU with three matrices (Llama), or GELU with two (BERT)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        bias = not shape.causal
        self.gate_proj = nn.Linear(shape.hidden, shape.ffn, bias=False) if shape.causal else None
        self.up_proj = nn.Linear(shape.hidden, shape.ffn, bias=bias)
        self.down_proj = nn.Linear(shape.ffn, shape.hidden, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        up = self.up_proj(x)
        inner = functional.gelu(up) if self.gate_proj is None else functional.silu(self.gate_proj(x)) * up
        return self.down_proj(inner)


class Block(nn.Module):
    """One layer: normalised before each half (Llama) or after it (BERT)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.before = shape.causal
        self.input_layernorm, self.post_attention_layernorm = shape.norm(), shape.norm()
        self.self_attn, self.mlp = Attention(shape), FeedForward(shape)

    def forward(self, x: Tensor) -> Tensor:
        if self.before:
            x = x + self.self_attn(self.input_layernorm(x))
            return x + self.mlp(self.post_attention_layernorm(x))
        x = self.input_layernorm(x + self.self_attn(x))
        return self.post_attention_layernorm(x + self.mlp(x))


class Body(nn.Module):
    """Embeddings and layers. `norm` stands after the layers (Llama) or after the embeddings (BERT)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.positions = None if shape.causal else nn.Embedding(shape.positions, shape.hidden)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = shape.norm()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        if self.positions is not None:
            places = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
            x = self.norm(x + self.positions(places))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) if self.positions is None else x


class Head(nn.Module):
    """Hidden states to scores of words, with a matrix of its own or, tied, with that of the embedding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dense = self.norm = self.bias = None
        self.weight = None if shape.tied else nn.Parameter(torch.empty(shape.vocab, shape.hidden))
        if not shape.causal:
            self.dense, self.norm = nn.Linear(shape.hidden, shape.hidden), shape.norm()
            self.bias = nn.Parameter(torch.empty(shape.vocab))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        if self.dense is not None and self.norm is not None:
            x = self.norm(functional.gelu(self.dense(x)))
        return functional.linear(x, embedding if self.weight is None else self.weight, self.bias)


class Transformer(nn.Module):
    """(batch, positions) token numbers to (batch, positions, vocab) scores."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, self.model, self.lm_head = shape, Body(shape), Head(shape)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.lm_head(self.model(tokens), self.model.embed_tokens.weight)


def loss_of(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy; labels of -100 do not count. Every sequence has as many that count, so that the mean of
    micro-batches' means is the mean of the whole batch."""
    return functional.cross_entropy(scores.flatten(0, 1).float(), labels.flatten(), ignore_index=-100)

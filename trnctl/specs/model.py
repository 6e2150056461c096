"""The shape of a model, and what follows from it: parameters by part, and the work of a token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Family = Literal["llama", "gpt-neox", "bert"]
FAMILIES: tuple[Family, ...] = ("llama", "gpt-neox", "bert")


@dataclass(frozen=True)
class Model:
    """A transformer.

    `ffn` is the width of the feed-forward layer, `positions` the number of learned position embeddings (BERT's),
    `tied` says that the output layer is the embedding itself, `flash_attention` that the scores of attention are
    never held as a whole. The family decides which matrices a layer has:

    llama      RMSNorm, grouped-query attention and three feed-forward matrices, none with a bias
    gpt-neox   LayerNorm, one fused attention matrix and two feed-forward matrices, all with biases
    bert       as gpt-neox, with position and segment embeddings, and the heads of pre-training
    """

    name: str
    family: Family
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    positions: int = 0
    tied: bool = False
    flash_attention: bool = True

    @property
    def embedding_parameters(self) -> int:
        """Word, position and segment embeddings with their norm: what stands before the first layer."""
        words = self.vocab * self.hidden
        if self.family != "bert":
            return words
        return words + (self.positions + 2) * self.hidden + 2 * self.hidden

    @property
    def layer_parameters(self) -> int:
        """One layer."""
        if self.family == "llama":
            head = self.hidden // self.heads
            attention = 2 * self.hidden * self.hidden + 2 * self.hidden * head * self.kv_heads
            return attention + 3 * self.hidden * self.ffn + 2 * self.hidden
        attention = 4 * self.hidden * self.hidden + 4 * self.hidden
        feed_forward = 2 * self.hidden * self.ffn + self.ffn + self.hidden
        return attention + feed_forward + 4 * self.hidden

    @property
    def head_parameters(self) -> int:
        """What stands after the last layer: the norm and the output layer, where it is not the embedding."""
        if self.family == "bert":  # pooler, transform of the masked-word head with its norm, its bias, next sentence
            square = self.hidden * self.hidden + self.hidden
            return 2 * square + 2 * self.hidden + self.vocab + 2 * self.hidden + 2
        norm = self.hidden if self.family == "llama" else 2 * self.hidden
        return norm + (0 if self.tied else self.vocab * self.hidden)

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.embedding_parameters + self.layers * self.layer_parameters + self.head_parameters

    def stage_parameters(self, pipeline: int) -> int:
        """The parameters of the heaviest of so many pipeline stages; it has the most layers, and one end of the model
        where every stage has as many."""
        if pipeline == 1:
            return self.parameters
        most, rest = -(-self.layers // pipeline), self.layers % pipeline
        ends = max(self.embedding_parameters, self.head_parameters)
        lighter = (self.layers // pipeline) * self.layer_parameters + ends
        return max(most * self.layer_parameters + (0 if rest else ends), lighter)

    def flops_per_token(self, sequence: int) -> float:
        """Floating-point operations of training on one token: six for each parameter, and the attention term
        12 x layers x hidden x sequence. Recomputed activations do not count: this is the model's work."""
        return 6.0 * self.parameters + 12.0 * self.layers * self.hidden * sequence


_SHAPES = {  # layers, hidden, heads, key-value heads, feed-forward width, vocabulary
    "llama2-7b": (32, 4096, 32, 32, 11008, 32000),
    "llama2-13b": (40, 5120, 40, 40, 13824, 32000),
    "llama2-70b": (80, 8192, 64, 8, 28672, 32000),
    "llama3-8b": (32, 4096, 32, 8, 14336, 128256),
    "llama3-70b": (80, 8192, 64, 8, 28672, 128256),
    "llama3.1-405b": (126, 16384, 128, 8, 53248, 128256),
}
_NEOX_SHAPES = {  # the same; the vocabulary is the padded one
    "gpt-neox-6.9b": (32, 4096, 32, 32, 16384, 50432),
    "gpt-neox-20b": (44, 6144, 64, 64, 24576, 50432),
}
_BERT_LARGE = Model(
    "bert-large", "bert", 24, 1024, 16, 16, 4096, 30522, positions=512, tied=True, flash_attention=False
)
# Shapes as the models' public configuration files give them; tests compare the parameters with the published counts.
PRESETS: Mapping[str, Model] = {
    _BERT_LARGE.name: _BERT_LARGE,
    **{name: Model(name, "llama", *shape) for name, shape in _SHAPES.items()},
    **{name: Model(name, "gpt-neox", *shape, flash_attention=False) for name, shape in _NEOX_SHAPES.items()},
}

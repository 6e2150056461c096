"""Runs as a scaling study sees them: what each one's record tells, and every figure with its ground."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trnctl.specs.workload import Scaling

Basis = Literal["measured", "modelled", "emulated", "published"]
# A run counts when it ended well, or was stopped by a person or its time limit: what it did until then it did well.
_COUNTS = frozenset({"completed", "cancelled", "timeout"})
MISSING = "missing"


@dataclass(frozen=True)
class Figure:
    """A number and its ground."""

    value: float
    basis: Basis

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {"value": self.value, "basis": self.basis}


@dataclass(frozen=True)
class PublishedRow:
    """What others have published of this workload; `nodes` on their `instance_type`."""

    nodes: int
    rate: float
    scaling: str
    source: str
    note: str
    instance_type: str

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "nodes": self.nodes, "scaling": self.scaling, "instance_type": self.instance_type,
            "throughput": Figure(self.rate, "published").as_json(), "source": self.source, "note": self.note,
        }  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """What somebody says of the length of the whole training: under `hours_under` on `nodes`."""

    nodes: int
    hours_under: float
    source: str


@dataclass(frozen=True)
class Trial:
    """One run as its record tells it; None for what it does not (yet) tell.

    `state` is the word of its stage that matters, or `missing` for a point that was never submitted. `settings` are
    what must be alike for runs to be compared, by name. `basis` is emulated where something else than AWS answered.
    """

    nodes: int
    scaling: Scaling
    run: str
    state: str
    reason: str = ""
    basis: Basis = "measured"
    rate: float | None = None
    global_batch: int | None = None
    steps: int | None = None
    steps_done: int | None = None
    final_loss: float | None = None
    train_seconds: float | None = None
    whole_steps: int | None = None
    whole_sequences: int | None = None
    sequences_per_unit: float | None = 1.0  # 1 for seq/s, 1/sequence for tokens a second, None for other units
    price: float | None = None
    price_source: str = ""
    submitted_at: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Whether its rate is one to compare."""
        return self.state in _COUNTS and bool(self.rate)

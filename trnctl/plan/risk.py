"""What a stop would lose: the training since the last checkpoint, by what the script really does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trnctl.plan.arguments import checkpoint_steps
from trnctl.specs.workload import Value, WorkloadSpec


@dataclass(frozen=True)
class Risk:
    """`on_signal`: the script saves when it is asked to end, and nothing is lost. Else at most `steps` optimizer steps,
    about `minutes` of training, are; None where the script does not count in steps, or no rate is known. `cadence`
    says when it saves, and `resumes` what a resumed run does not get back."""

    on_signal: bool
    steps: int | None
    minutes: float | None
    cadence: str
    resumes: str
    ground: str = ""  # on what the minutes rest: published, assumed …

    def words(self) -> str:
        """In one sentence's worth."""
        if self.on_signal:
            return "nothing: the script saves when it is asked to end"
        again = f"; a run that goes on gets back {self.resumes}" if self.resumes else ""
        if self.steps is None:
            return f"the work since the last checkpoint, written {self.cadence or 'nobody knows when'}{again}"
        rests = f" at the {self.ground} rate" if self.ground else ""
        time = f", about {self.minutes:,.0f} min of training{rests}" if self.minutes is not None else ""
        return f"the work since the last checkpoint, at most {self.steps:,} steps{time}: written {self.cadence}{again}"


def work_at_risk(
    workload: WorkloadSpec,
    arguments: Mapping[str, Value] | None = None,
    *,
    step_seconds: float | None = None,
    ground: str = "",
) -> Risk:
    """What a stop of a run of the workload would lose; `arguments` are the user's, who may change the rhythm."""
    checkpoint = workload.checkpoint
    steps = checkpoint_steps(workload, arguments or {})
    minutes = steps * step_seconds / 60 if steps is not None and step_seconds is not None else None
    cadence = checkpoint.cadence.replace("{every_steps}", f"{steps or 0:,}")
    return Risk(
        checkpoint.on_signal, steps, minutes, cadence, checkpoint.resumes, ground if minutes is not None else ""
    )

"""Run a recipe's training on this machine, under its own torchrun: the same script and layout as on a cluster."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath

from trnctl.errors import RunFailed, ToolMissing, UsageError
from trnctl.findings import errors_among
from trnctl.plan.arguments import fill_in
from trnctl.plan.layout import Layout, numbers
from trnctl.plan.proposal import Proposal, propose
from trnctl.plan.rules import check
from trnctl.plan.words import listed
from trnctl.ports import CommandFailed, File, Shell
from trnctl.render.shipped import CODE, travelling
from trnctl.specs.workload import WorkloadSpec

MACHINE = "this machine"  # where an instance type would stand
_MOST_RANKS = 64
_JOIN_SECONDS = 60
INSTALL = "pip install 'trnctl[trainer]' brings PyTorch; or name the Python that has it with --python"


@dataclass(frozen=True)
class LocalWishes:
    """`folder` is the run's, absolute; `checkpoint` the newest whole one in it, '' without one. `python` is the Python
    whose torchrun is meant, '' for the first on PATH."""

    ranks: int
    folder: str
    arguments: Mapping[str, str]
    environment: Mapping[str, str]
    python: str = ""
    checkpoint: str = ""


@dataclass(frozen=True)
class LocalPlan:
    """What is written into the run's folder and started; `said` is what a person should know before."""

    workload: WorkloadSpec
    layout: Layout
    folder: str
    files: tuple[File, ...]
    torchrun: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    steps: int
    said: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command; what it says on stderr comes with the rest, in its order. `environment` is not in it:
        whoever starts it passes that on, since everybody on a machine may read the words of a command."""
        return ("sh", "-c", 'exec "$@" 2>&1', "sh", self.torchrun, *self.words)


def run_folder(workload: str, now: datetime) -> str:
    """A new folder's name below the working folder."""
    return f"trnctl-runs/{workload}-{now:%m%d-%H%M%S}"


def plan_local(workload: WorkloadSpec, wishes: LocalWishes) -> LocalPlan:
    """The layout on so many ranks, and what will run. UsageError for a recipe whose code does not come with trnctl, and
    for what a rule refuses."""
    if not workload.source.shipped:
        raise UsageError(
            f"the code of {workload.name} is in a repository and made for other machines, so it cannot run here",
            remedy="run-local runs recipes with `source: {shipped: …}`, as fsdp-llama-tiny",
        )
    said: list[str] = []
    proposal = _proposal(workload, wishes, said)
    layout = numbers(proposal)
    filled = fill_in(
        proposal.workload, layout, folder=wishes.folder, mount=wishes.folder, arguments=wishes.arguments,
        environment=wishes.environment, source=f"{wishes.folder}/{CODE}",
    )  # fmt: skip
    again = [word.replace("{checkpoint}", wishes.checkpoint) for word in workload.checkpoint.resume_arguments]
    words = (
        "--standalone", f"--nproc_per_node={wishes.ranks}", f"--rdzv_conf=join_timeout={_JOIN_SECONDS}",
        f"{wishes.folder}/{CODE}/{workload.script}", *filled.training, *(again if wishes.checkpoint else ()),
    )  # fmt: skip
    return LocalPlan(
        workload=workload,
        layout=layout,
        folder=wishes.folder,
        files=travelling(proposal.workload, layout, MACHINE),
        torchrun=str(PurePosixPath(wishes.python).parent / "torchrun") if wishes.python else "torchrun",
        words=words,
        environment=filled.environment,
        steps=filled.steps,
        said=tuple(said),
    )


def _proposal(workload: WorkloadSpec, wishes: LocalWishes, said: list[str]) -> Proposal:
    """The recipe on one node of so many ranks. A degree of sharding that does not fit is made to, aloud; what the rules
    refuse is a UsageError that names the numbers of ranks that work."""
    parallelism = workload.parallelism
    sharing = max(1, wishes.ranks // parallelism.tensor)
    if isinstance(parallelism.shard, int) and sharing % parallelism.shard:
        said.append(f"{workload.name} shards over {parallelism.shard} ranks, which do not divide {sharing}: over all.")
        parallelism = replace(parallelism, shard="full")
    if parallelism.collectives is None:
        device = wishes.arguments.get("device", workload.arguments.get("device"))
        parallelism = replace(parallelism, collectives="gloo" if device == "cpu" else "nccl")

    def on(ranks: int) -> Proposal:
        here = replace(workload, ranks_per_node={MACHINE: ranks}, nodes=1, parallelism=parallelism)
        return propose(here, MACHINE, 1)

    proposal = on(wishes.ranks)
    wrong = errors_among(check(proposal))
    if not wrong:
        return proposal
    legal = [ranks for ranks in range(1, _MOST_RANKS + 1) if not errors_among(check(on(ranks)))]
    remedy = f"use --ranks with one of {listed(legal)}" if legal else wrong[0].remedy
    ranks, batch, why = "1 rank" if wishes.ranks == 1 else f"{wishes.ranks} ranks", workload.batch, wrong[0].message
    if proposal.data and not proposal.accumulation:  # the rule's own sentence speaks of nodes
        why = (
            f"micro-batches of {batch.micro} on {proposal.data} do not divide its global batch of {batch.global_size:,}"
        )
    raise UsageError(f"{workload.name} cannot run on {ranks}: {why}", remedy=remedy, findings=wrong[1:])


def run_local(plan: LocalPlan, shell: Shell) -> Generator[str]:
    """The training's lines as they come; closing the generator ends it. ToolMissing without torchrun, at once;
    RunFailed, after the last line, when the training fails. The run's files must be there before the first line."""
    found = shell.run(["sh", "-c", 'command -v "$1"', "sh", plan.torchrun], timeout=10)
    if found.returncode != 0:
        raise ToolMissing(
            f"there is no torchrun {f'at {plan.torchrun}' if '/' in plan.torchrun else 'on PATH'}, "
            "so PyTorch is not installed there",
            remedy=INSTALL,
            program="torchrun",
        )
    return _lines(plan, shell)


def _lines(plan: LocalPlan, shell: Shell) -> Generator[str]:
    try:
        yield from shell.stream(plan.argv)
    except CommandFailed as error:
        raise RunFailed(
            f"the training ended with exit code {error.completed.returncode}",
            remedy=f"the lines above tell why; what it had saved is in {plan.folder}/checkpoints",
        ) from error

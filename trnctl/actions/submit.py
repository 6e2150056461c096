"""Submit a workload: checks, a plan with its price, and then one connection that does it all."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Literal

from trnctl.errors import ConnectionLost, Interrupted, RefusedError, UsageError, WaitedTooLong
from trnctl.findings import Finding
from trnctl.plan.block import clip_to_block
from trnctl.plan.cap import Cap, cap_of, check_cap
from trnctl.plan.estimate import Estimate, estimate
from trnctl.plan.layout import Layout, check_queue
from trnctl.plan.notify import check_notify
from trnctl.plan.outlook import admit
from trnctl.plan.proposal import propose, ranks_on
from trnctl.plan.risk import Risk, work_at_risk
from trnctl.plan.software import admit_software, instead
from trnctl.ports import CacheWish, File, JobQueue, Stage, Submission, Submitted
from trnctl.render.job import (
    JobRequest,
    documents,
    fingerprint_of,
    mirror_prefix,
    place_of_cache,
    without_compile,
)
from trnctl.render.prepare import needs_of, preparer
from trnctl.specs.cluster import ClusterSpec, Queue
from trnctl.specs.instances import instance
from trnctl.specs.prices import TABLE, Prices
from trnctl.specs.study import Study
from trnctl.specs.workload import Scaling, WorkloadSpec

CompileWord = Literal["auto", "force", "skip"]
_RUN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Wishes:
    """What the person asked for besides the workload; None or empty means the recipe's or the queue's own."""

    nodes: int | None = None
    queue: str | None = None
    scaling: Scaling = "strong"
    name: str | None = None
    arguments: Mapping[str, str] | None = None  # --set key=value
    environment: Mapping[str, str] | None = None  # --env K=V
    exclude: str | None = None
    time_limit: str | None = None
    compile: CompileWord = "auto"
    hold: bool = False
    from_run: str | None = None  # a run whose newest whole checkpoint it starts from
    skip_prepare: bool = False  # do not look for code and data before nodes are asked for
    force: bool = False  # overrule what the plan forbids
    max_cost: float | None = None  # US dollars that all jobs of the run may cost together
    notify: str = ""  # a command or a URL that is told of the run's end; '' = the cluster file's
    prices: Prices = TABLE
    study: Study | None = None  # the scaling study that the run is a point of
    check: bool = False  # look at the nodes before each stage, and drain those that fail
    sbatch_args: Sequence[str] = ()


@dataclass(frozen=True)
class SubmitPlan:
    """What will be written and run; everything in it is known before anything is touched."""

    workload: WorkloadSpec
    queue: Queue
    instance_type: str
    layout: Layout
    estimate: Estimate
    submission: Submission
    compile: str  # scheduled (unless the head node finds all graphs in the cache) | skipped
    risk: Risk  # what a stop would lose
    cap: Cap | None = None
    findings: tuple[Finding, ...] = ()  # warnings: what is doubtful about the cluster's software, and the recipe's own
    mirror: str = ""  # where the run's records are copied to; '' where the cluster has no bucket
    check: bool = False

    @property
    def run(self) -> str:
        """The run's name."""
        return self.submission.run


@dataclass(frozen=True)
class Facts:
    """What a plan needs to know of the target: where mounts are on its head node, what is emulated there, and when its
    capacity blocks end. `recipes` reads all recipes, and is called only where another one has to be named."""

    mount_prefix: str = ""
    notice: str = ""
    block_ends: Mapping[str, datetime] = field(default_factory=dict)  # capacity blocks that are known
    recipes: Callable[[], Iterable[WorkloadSpec]] = tuple


def runs_folder(spec: ClusterSpec | None, mount_prefix: str) -> str:
    """Where the cluster's runs live, as its head node sees it; without a file, patterns for where they may."""
    mounts = [spec.shared_mount] if spec else ["/*", "/*/*"]
    return ":".join(f"{mount_prefix}{mount}/trnctl/runs" for mount in mounts)


def run_name(workload: str, now: datetime) -> str:
    """`bert-large-1129-a3f04`: the workload, the day, five random digits."""
    return f"{workload}-{now:%m%d}-{secrets.token_hex(3)[:5]}"


def plan_submit(
    workload: WorkloadSpec, spec: ClusterSpec, wishes: Wishes, *, run: str, now: datetime, facts: Facts
) -> SubmitPlan:
    """Legality first (UsageError), then capacity (RefusedError), then everything that will be written."""
    check_cap(wishes.max_cost)
    _admit_workload(workload, spec, wishes)
    queue, instance_type, doubts = _place(workload, spec, wishes.queue, facts)
    nodes = workload.nodes if wishes.nodes is None else wishes.nodes
    admitted = admit(propose(workload, instance_type, nodes, wishes.scaling), force=wishes.force)
    layout = admitted.layout
    check_queue(layout, queue, instance_type)
    _check_name(run)
    check_notify(wishes.notify or spec.notify)
    compiles = wishes.compile != "skip" and workload.compile != "none"
    guess = estimate(
        workload, layout, instance_type, arguments=wishes.arguments, compiles=compiles, prices=wishes.prices,
        capacity=queue.capacity.type,
    )  # fmt: skip
    cap = _cap(wishes, guess, layout, instance_type, queue)
    limit, notes = _time_limit(cap.clip(wishes.time_limit) if cap else wishes.time_limit, queue, facts, now)
    request = replace(
        _request(spec, queue, instance_type, wishes, facts, run=run, now=now),
        time_limit=limit,
        cap=cap,
        notice=_notice(workload, instance_type, facts),
        compile=compiles,
        overruled=admitted.overruled,
    )
    return SubmitPlan(
        workload, queue, instance_type, layout, guess,
        _submission(workload, layout, request, wishes),
        "scheduled" if compiles else "skipped",
        work_at_risk(workload, wishes.arguments, step_seconds=_step_seconds(guess), ground="published"),
        cap,
        (*_experimental(workload), *doubts, *notes),
        request.mirror,
        request.check,
    )  # fmt: skip


def _request(
    spec: ClusterSpec, queue: Queue, instance_type: str, wishes: Wishes, facts: Facts, *, run: str, now: datetime
) -> JobRequest:
    """What the cluster file and the command line say of a run's jobs."""
    return JobRequest(
        run=run,
        folder=f"{runs_folder(spec, facts.mount_prefix)}/{run}",
        cluster=spec.name,
        partition=queue.name,
        mount=f"{facts.mount_prefix}{spec.shared_mount}",
        capacity=queue.capacity.type,
        prices=wishes.prices,
        exclude=wishes.exclude or "",
        environment=wishes.environment or {},
        arguments=wishes.arguments or {},
        sdk=spec.neuron_sdk,
        os=spec.os,
        instance_type=instance_type,
        constraint=instance_type if len({r.instance_type for r in queue.compute_resources}) > 1 else "",
        submitted_at=now.isoformat(timespec="seconds"),
        from_run=wishes.from_run or "",
        notify=wishes.notify or spec.notify,
        mirror=f"s3://{spec.bucket}/{mirror_prefix(spec.name)}{run}" if spec.bucket else "",
        region=spec.region,
        study=wishes.study,
        check=wishes.check,
        efa=all(one.efa is not False for one in queue.compute_resources if one.instance_type == instance_type),
    )


def _place(
    workload: WorkloadSpec, spec: ClusterSpec, wished: str | None, facts: Facts
) -> tuple[Queue, str, list[Finding]]:
    """The queue, the type, and what is doubtful there. UsageError names the recipes that can, where this one cannot."""
    try:
        queue, instance_type = pick_queue(spec, workload, wished)
        return queue, instance_type, admit_software(spec, workload)
    except UsageError as error:
        others = instead(spec, workload, facts.recipes())
        if not others or wished not in {None, *(one.name for one in spec.queues)}:
            raise
        way = f"{error.remedy.rstrip('.')}; or submit a recipe of the same model: {', '.join(others)}"
        raise UsageError(error.message, remedy=way, findings=error.findings) from error


def _check_name(run: str) -> None:
    if not _RUN_NAME.fullmatch(run):
        raise UsageError(
            f"{run!r} cannot name a run: it becomes a folder and a job name",
            remedy="use at most 63 small letters, digits, dots, hyphens and underscores, a letter or digit first",
        )


def _time_limit(limit: str | None, queue: Queue, facts: Facts, now: datetime) -> tuple[str | None, tuple[Finding, ...]]:
    """The limit that was asked for, or a shorter one where the queue's capacity block ends before it, with a word."""
    block = queue.capacity.id or ""
    ends = facts.block_ends.get(block) if queue.capacity.type == "capacity-block" else None
    clipped = clip_to_block(limit, block, ends, now) if ends else None
    if clipped is None:
        return limit, ()
    text = f"each job gets a time limit of {clipped}: then {block} gives its instances back"
    return clipped, (Finding("capacity-block-ends", "warning", text, "let the run save before that"),)


def _cap(wishes: Wishes, guess: Estimate, layout: Layout, instance_type: str, queue: Queue) -> Cap | None:
    """What --max-cost makes of the run, None without it."""
    if wishes.max_cost is None:
        return None
    return cap_of(
        wishes.max_cost,
        guess,
        nodes=layout.nodes,
        instance_type=instance_type,
        prices=wishes.prices,
        capacity=queue.capacity.type,
        words=wishes.sbatch_args,
    )


def _step_seconds(guess: Estimate) -> float | None:
    """Seconds of an optimizer step, where a rate is published."""
    return guess.hours * 3600 / guess.steps if guess.hours is not None else None


def _experimental(workload: WorkloadSpec) -> Iterator[Finding]:
    if workload.experimental:
        yield Finding(
            "recipe-experimental",
            "warning",
            f"{workload.name} is experimental: {workload.experimental}",
            "Try it on one node, with --set for few steps, before you count on it.",
        )


def _notice(workload: WorkloadSpec, instance_type: str, facts: Facts) -> str:
    """What every result says when it is not AWS that answers. The shipped trainer trains there too, where CPUs do."""
    known = instance(instance_type)
    if not facts.notice or not workload.source.shipped or known is None or known.kind != "cpu":
        return facts.notice
    return f"{facts.notice}; the training is real, on the one machine that stands for all nodes"


def _admit_workload(workload: WorkloadSpec, spec: ClusterSpec, wishes: Wishes) -> None:
    """Refuse what cannot be submitted at all, whatever the layout."""
    if spec.platform != "parallelcluster":
        raise RefusedError(
            f"{spec.name} is for {spec.platform}: trnctl plans for it, but cannot submit to it",
            remedy="submit to a cluster with platform: parallelcluster",
        )
    if workload.plan_only:
        raise UsageError(
            f"{workload.name} can be planned, but not submitted: {workload.plan_only}",
            remedy=f"trnctl plan {workload.name} plans it; a recipe of your own, with a script, can be submitted",
        )
    _admit_start(workload, wishes)


def _admit_start(workload: WorkloadSpec, wishes: Wishes) -> None:
    """Refuse --from where the script cannot be told a checkpoint, and its lack where the training needs one."""
    words = workload.checkpoint.resume_arguments
    if wishes.from_run and not words:
        raise UsageError(
            f"{workload.name} does not say how its script starts from a checkpoint",
            remedy="add resume_arguments to checkpoint in the recipe, or leave --from out",
        )
    if wishes.from_run and not any("{checkpoint}" in word for word in words):
        raise UsageError(
            f"the script of {workload.name} finds checkpoints only in the folder that it writes to itself, so that it "
            "cannot start from another run's",
            remedy=f"leave --from out; trnctl resume {wishes.from_run} lets that run itself go on",
        )
    needed = workload.from_run
    if needed.recipes and not wishes.from_run and needed.argument not in (wishes.arguments or {}):
        elsewhere = f"; a checkpoint from elsewhere: --set {needed.argument}=/path/of/it" if needed.argument else ""
        raise UsageError(
            f"{workload.name} starts from a run of {' or '.join(needed.recipes)}, and none is named: {needed.why}",
            remedy=f"trnctl submit {workload.name} --from RUN, the name of such a run (trnctl runs lists them)"
            f"{elsewhere}",
        )


def _submission(workload: WorkloadSpec, layout: Layout, request: JobRequest, wishes: Wishes) -> Submission:
    """The one message that the head node gets."""
    files = documents(workload, layout, request)
    return Submission(
        run=request.run,
        folder=request.folder,
        files=(*files, *preparer()),
        stages=stages(files),
        sbatch_args=tuple(wishes.sbatch_args),
        hold=wishes.hold,
        from_run=wishes.from_run or "",
        from_recipes=workload.from_run.recipes if wishes.from_run else (),
        from_step=_from_step(workload, wishes) if wishes.from_run else None,
        cache=_cache_wish(workload, layout, request, wishes.compile),
        needs=() if wishes.skip_prepare else needs_of(workload, request),
    )


def _from_step(workload: WorkloadSpec, wishes: Wishes) -> int | None:
    """How many steps the run that this one starts from must have done, as its own arguments tell its script."""
    name = workload.from_run.step_argument
    if not name:
        return None
    said = str((wishes.arguments or {}).get(name, workload.arguments[name]))
    if not said.isdigit():
        raise UsageError(
            f"{name} says how many steps the run that this one starts from did, and {said!r} is no number",
            remedy=f"leave it out, or give a whole number, as in --set {name}={workload.arguments[name]}",
        )
    return int(said)


def _cache_wish(workload: WorkloadSpec, layout: Layout, request: JobRequest, mode: CompileWord) -> CacheWish | None:
    """What the head node needs to tell whether the compile stage is needed; None for what is never compiled ahead."""
    if workload.compile == "none":
        return None
    place = place_of_cache(workload, request)
    return CacheWish(
        url=place.url,
        fingerprint=fingerprint_of(workload, layout, request).key,
        shared=place.shared,
        mode=mode,
        without=tuple((file.name, file.text) for file in without_compile(workload, layout, request)),
    )


def stages(files: Sequence[File]) -> tuple[Stage, ...]:
    """The stages that the files describe, in order."""
    names = {PurePosixPath(file.name).name for file in files}
    order: tuple[Stage, ...] = ("prepare", "compile", "train")
    return tuple(stage for stage in order if f"{stage}.sbatch" in names)


def pick_queue(
    spec: ClusterSpec, workload: WorkloadSpec, name: str | None, *, planning: bool = False
) -> tuple[Queue, str]:
    """The queue and instance type: the named queue, else the first that the recipe's script runs on; to plan only,
    also one that its model could run on. UsageError otherwise."""
    names = [queue.name for queue in spec.queues]
    if name is not None and name not in names:
        raise UsageError(f"{spec.name} has no queue {name}", remedy=f"choose one of {', '.join(names)}")
    for queue in [one for one in spec.queues if name in {None, one.name}]:
        for resource in queue.compute_resources:
            if resource.instance_type in workload.ranks_per_node:
                return queue, resource.instance_type
            if planning and ranks_on(workload, resource.instance_type) is not None:
                return queue, resource.instance_type
    there = sorted({r.instance_type for q in spec.queues if name in {None, q.name} for r in q.compute_resources})
    raise UsageError(
        f"{workload.name} cannot run on {', '.join(there)}",
        remedy=f"it runs on {', '.join(sorted(workload.ranks_per_node)) or 'no type'}: use a queue of one of these",
    )


def send(plan: SubmitPlan, queue: JobQueue) -> Submitted:
    """Send it: one connection. When nobody can tell whether it arrived, the error names the run, under whose name the
    same command may be given again: then it is never submitted twice."""
    again = f"look with trnctl runs, or give the same command with --name {plan.run}: then it is not submitted twice"
    try:
        return queue.submit(plan.submission)
    except ConnectionLost as error:
        if not error.reached:
            raise
        raise ConnectionLost(f"{error.message} Whether {plan.run} was submitted is not known.", remedy=again) from error
    except WaitedTooLong as error:
        raise WaitedTooLong(f"{error.message} Whether {plan.run} was submitted is not known.", remedy=again) from error
    except KeyboardInterrupt:
        raise Interrupted(f"whether {plan.run} was submitted is not known", remedy=again) from None

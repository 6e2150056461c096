"""A run's files: the batch scripts of its stages, the manifest that tells what it is, the scripts that sum it up.

The run's folder on shared storage, as the job scripts, the head node's agent and `status` know it:

    run.json                    the manifest, made here
    compile.sbatch train.sbatch the jobs; the compile stage may be absent
    code/ parallel.json         the code that comes with trnctl, and its layout, where a recipe runs that
    results.py gate.py          sum up the run; judge the compile stage
    blame.py                    names the nodes whose hardware has failed
    mirror.py s3.py             copy the small records to the cluster's bucket
    health.py health/STAGE/     with submit --check: look at the nodes before they work; what they found
    submitted.json              the job ids, written by whoever submits
    cache.py                    what the jobs know of the compile cache
    compile.log train.log       the batch scripts' own words
    logs/STAGE/node-N.log       one log a node, appended to when the job is requeued
    checkpoints/ output/        what the script writes
    ended/STAGE.json            stage, exit_code, at, restarts, node_list; for compile also failed_graphs
    results.json                model, batch, steps, throughput, loss, times, node-seconds, checkpoints
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace

from trnctl import __version__
from trnctl.errors import UsageError
from trnctl.plan.arguments import Filled, checkpoint_steps, fill_in
from trnctl.plan.cap import Cap, minutes_of
from trnctl.plan.compile_cache import VARIABLE, CachePlace, cache_place
from trnctl.plan.estimate import Estimate, estimate
from trnctl.plan.fingerprint import FLAGS, Fingerprint, fingerprint, retrying
from trnctl.plan.layout import Layout
from trnctl.ports import File, Stage
from trnctl.render.beside import beside
from trnctl.render.engine import render
from trnctl.render.health import check_files, expected, scripts
from trnctl.render.places import code_folder, environment_of
from trnctl.render.shipped import CODE, travelling
from trnctl.specs.instances import PRICE_DATE, instance
from trnctl.specs.prices import ON_DEMAND, TABLE, Prices
from trnctl.specs.study import Study
from trnctl.specs.workload import Source, Value, WorkloadSpec

MANIFEST_SCHEMA = 1
# Of one job, which Slurm starts again when it loses a node. A person's own word (trnctl resume) counts anew.
MOST_RESTARTS = 5
MOST_RESTARTS_WITHOUT_PROGRESS = 2
SIGNAL_SECONDS = 120  # USR1 comes so long before the time limit; Slurm may send it up to a minute earlier
# Slurm's forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours and the like.
TIME_LIMIT = re.compile(r"[0-9]+(:[0-9]{1,2}){0,2}|[0-9]+-[0-9]{1,2}(:[0-9]{1,2}){0,2}")
_GIB_PER_COMPILER = 64  # neuron_parallel_compile starts one for so much memory of the host
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class JobRequest:
    """One run of a workload on one cluster.

    `folder` is the run's and `mount` the shared file system's, both absolute and as the nodes see them. `time_limit`
    is Slurm's (minutes, or [days-]hours:minutes:seconds) and holds for each job. `exclude` is a Slurm host list.
    `constraint` is a Slurm feature that the nodes must have: the instance type, where a partition mixes several.
    `arguments` and `environment` are the user's own, and come after the recipe's. `notice` is said with every result
    when what answers is not AWS. `submitted_at` is ISO 8601 in UTC. `overruled` are the codes of what the plan forbade
    and the user forced. `from_run` names the run from whose newest whole checkpoint this one starts. `mirror` is where
    the run's records are copied to (s3://BUCKET/…, '' for nowhere), in `region`. `cap` is what it may cost, at
    `prices` of nodes that are bought as `capacity` says.
    `study` is the scaling study that it is a point of. With `check` each job first looks at its nodes; `efa` is whether
    the queue has it on.
    """

    run: str
    folder: str
    cluster: str
    partition: str
    mount: str
    instance_type: str
    sdk: str
    submitted_at: str
    time_limit: str | None = None
    exclude: str = ""
    constraint: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Value] = field(default_factory=dict)
    notice: str = ""
    compile: bool = True
    overruled: tuple[str, ...] = ()
    from_run: str = ""
    notify: str = ""  # a command or a URL; it may hold a token
    mirror: str = ""
    region: str = ""
    cap: Cap | None = None
    capacity: str = ON_DEMAND
    prices: Prices = TABLE
    study: Study | None = None
    check: bool = False
    efa: bool = True
    os: str = ""


def documents(workload: WorkloadSpec, layout: Layout, request: JobRequest) -> tuple[File, ...]:
    """All files of a run. Without a compile stage (the recipe has none, or `request.compile` is False) there is no
    compile.sbatch. Raises UsageError for a value that a script cannot carry or that only the layout may decide."""
    _check(request)
    filled = fill_in(
        workload,
        layout,
        folder=request.folder,
        mount=request.mount,
        arguments=request.arguments,
        environment=request.environment,
        source=code_of(workload, request),
    )
    stages = stages_of(workload, request)
    jobs = [
        File(f"{stage}.sbatch", _script(stage, workload, layout, request, filled), executable=True) for stage in stages
    ]
    cache_url = place_of_cache(workload, request).url if workload.compile != "none" else ""
    return (
        _manifest_file(workload, layout, request),
        *jobs,
        *beside(stages, cache_url=cache_url, mirror=request.mirror, notify=request.notify),
        *travelling(workload, layout, request.instance_type),
        *(_checks(stages, request) if request.check else ()),
    )


def _checks(stages: Iterable[Stage], request: JobRequest) -> Iterator[File]:
    """What the jobs need to look at their nodes. The compilers meet no other node, so that their job measures none."""
    yield from scripts()
    for stage in stages:
        disks = ["/", "/tmp", request.mount]  # noqa: S108  only looked at
        expect = expected(request.instance_type, disks, sdk=request.sdk, efa=request.efa, collectives=stage == "train")
        yield from check_files(expect, f"health/{stage}")


def without_compile(workload: WorkloadSpec, layout: Layout, request: JobRequest) -> tuple[File, ...]:
    """The files that are others when the cache turns out to hold all graphs: the manifest alone."""
    return (_manifest_file(workload, layout, replace(request, compile=False)),)


def _manifest_file(workload: WorkloadSpec, layout: Layout, request: JobRequest) -> File:
    return File("run.json", json.dumps(manifest(workload, layout, request), indent=2, sort_keys=True) + "\n")


def stages_of(workload: WorkloadSpec, request: JobRequest) -> tuple[Stage, ...]:
    """The stages of a run, in order."""
    return ("compile", "train") if request.compile and workload.compile != "none" else ("train",)


def log_node(workload: WorkloadSpec, layout: Layout) -> int:
    """The node whose log holds the step lines. Workers are numbered stage by stage (NeuronX Distributed: pipeline
    slowest, tensor fastest), so that the last stage begins where all the others end."""
    if workload.log.printed_by == "first-worker":
        return 0
    return layout.world // layout.pipeline * (layout.pipeline - 1) // layout.ranks_per_node


def code_of(workload: WorkloadSpec, request: JobRequest) -> str:
    """Where a run's code lies: in its own folder, when it comes with trnctl."""
    return f"{request.folder}/{CODE}" if workload.source.shipped else code_folder(request.mount, workload.source)


def mirror_prefix(cluster: str) -> str:
    """Below which key the records of a cluster's runs are copied to its bucket, RUN/NAME behind it."""
    return f"trnctl/{cluster}/runs/"


def place_of_cache(workload: WorkloadSpec, request: JobRequest) -> CachePlace:
    """The run's compile cache."""
    return cache_place(
        mount=request.mount,
        instance_type=request.instance_type,
        sdk=request.sdk,
        recipe={name: value.replace("{mount}", request.mount) for name, value in workload.environment.items()},
        environment=request.environment,
    )


def fingerprint_of(workload: WorkloadSpec, layout: Layout, request: JobRequest) -> Fingerprint:
    """What tells the run's graphs from others."""
    return fingerprint(
        workload,
        layout,
        sdk=request.sdk,
        instance_type=request.instance_type,
        arguments=request.arguments,
        environment=request.environment,
    )


_EXPECTED = ("rate", "hours", "compile_hours", "cost_usd", "basis")


def manifest(workload: WorkloadSpec, layout: Layout, request: JobRequest) -> dict[str, object]:
    """run.json: what the run is, for `status`, for results.py and for whoever looks years later. It names the user's
    variables without their values, which may be secrets."""
    stages = stages_of(workload, request)
    expected = estimate(
        workload, layout, request.instance_type, arguments=request.arguments, compiles="compile" in stages,
        prices=request.prices, capacity=request.capacity,
    )  # fmt: skip
    return {
        "schema": MANIFEST_SCHEMA,
        "trnctl": __version__,
        "run": request.run,
        **_recipe(workload),
        "cluster": request.cluster,
        "queue": request.partition,
        "instance_type": request.instance_type,
        "nodes": layout.nodes,
        "layout": asdict(layout),
        "sequence": workload.batch.sequence,
        "steps": expected.steps,
        **_written(workload, layout, request),
        "stages": list(stages),
        "restarts": {"most": MOST_RESTARTS, "without_progress": MOST_RESTARTS_WITHOUT_PROGRESS},
        "from_run": request.from_run,
        "exclude": request.exclude,
        "folder": request.folder,
        "mirror": request.mirror,
        "region": request.region,
        **_graphs(workload, layout, request),
        "sdk": request.sdk,
        "arguments": dict(request.arguments),
        "environment_names": sorted(request.environment),
        "expected": {word: getattr(expected, word) for word in _EXPECTED},
        **_money(expected, request),
        **_to_compare(workload, request.study),
        "submitted_at": request.submitted_at,
        "notice": request.notice,
        "forced": list(request.overruled),
    }


def _recipe(workload: WorkloadSpec) -> dict[str, object]:
    """What is trained, and with which code."""
    return {
        "workload": workload.name,
        "title": workload.title,
        "model": workload.model,
        "dataset": workload.dataset,
        "source": asdict(workload.source),
        "workdir": workload.workdir,
        "requirements": list(workload.requirements),
        "script": workload.script,
    }


def _written(workload: WorkloadSpec, layout: Layout, request: JobRequest) -> dict[str, object]:
    """How to read what the script writes: its step lines, and its checkpoints."""
    return {
        "unit": workload.log.unit,
        "log_pattern": workload.log.step,
        "log_first": workload.log.first,
        "log_node": log_node(workload, layout),
        "checkpoint": {**asdict(workload.checkpoint), "every_steps": checkpoint_steps(workload, request.arguments)},
    }


def _money(expected: Estimate, request: JobRequest) -> dict[str, object]:
    """What a node costs, by whose word, and what the run may cost."""
    return {
        "price_per_node_hour_usd": expected.price_per_node_hour,
        "price_date": PRICE_DATE,
        "price_source": expected.price_source,
        "capacity": request.capacity,
        "max_cost_usd": request.cap.usd if request.cap else None,
        "max_node_seconds": request.cap.node_seconds if request.cap else None,
    }


def _graphs(workload: WorkloadSpec, layout: Layout, request: JobRequest) -> dict[str, object]:
    """Where the run's graphs lie, and what tells them from others."""
    place, graphs = place_of_cache(workload, request), fingerprint_of(workload, layout, request)
    return {
        "cache": place.url,
        "cache_shared": place.shared,
        "cache_why": place.why,
        "fingerprint": graphs.key,
        "fingerprint_of": dict(graphs.facts),
    }


def _to_compare(workload: WorkloadSpec, study: Study | None) -> dict[str, object]:
    """What a report needs of the recipe years later: how long the whole training is, and what others have published."""
    return {
        "whole": {"steps": workload.steps, "sequences": workload.steps * workload.batch.global_size},
        "published": [asdict(row) for row in workload.published],
        "claims": [asdict(claim) for claim in workload.claims],
        "study": study.as_json() if study is not None else None,
    }


def _capped_minutes(request: JobRequest) -> int:
    """The time limit that each job of a capped run begins with, 0 without a cap. It is only ever shortened: Slurm lets
    a user raise none, and one that the person gave is meant."""
    if request.cap is None:
        return 0
    asked = minutes_of(request.time_limit) if request.time_limit else None
    return min(request.cap.minutes, math.ceil(asked)) if asked else request.cap.minutes


def _script(stage: Stage, workload: WorkloadSpec, layout: Layout, request: JobRequest, filled: Filled) -> str:
    facts = instance(request.instance_type)
    compiling = stage == "compile"
    place = place_of_cache(workload, request)
    environment = {VARIABLE: place.url, **(filled.trial if compiling else filled.environment)}
    if compiling:
        environment[FLAGS] = retrying(environment.get(FLAGS, ""))
    here = code_of(workload, request)
    return render(
        "bash",
        f"job/{stage}.sbatch.j2",
        {
            "run": request.run,
            "stage": stage,
            "partition": request.partition,
            "nodes": layout.nodes,
            "ranks": layout.ranks_per_node,
            "cpus": facts.vcpus if facts is not None else None,
            "exclude": request.exclude,
            "constraint": request.constraint,
            "time_limit": request.time_limit,
            "capped_minutes": _capped_minutes(request),
            "signal_seconds": SIGNAL_SECONDS,
            "folder": request.folder,
            "batch_log": f"{_literal(request.folder)}/{stage}.log",
            "node_logs": f"{_literal(request.folder)}/logs/{stage}/node-%n.log",
            "code_folder": here,
            "script": workload.script,
            "virtualenv": environment_of(workload, mount=request.mount, sdk=request.sdk, os=request.os)
            or filled.virtualenv,
            "cache": place.url,
            "shared_cache": place.shared,
            "own_cache": place.own or workload.compile == "none",  # one that no script of ours looks after
            "guards_cache": workload.compile != "none" and (place.url.startswith("s3://") or "://" not in place.url),
            "fewer_compilers": max(1, facts.host_gib // _GIB_PER_COMPILER // 4) if facts is not None else 1,
            "mirrors": bool(request.mirror),
            "check": request.check,
            "notifies": bool(request.notify),
            "environment": list(environment.items()),
            "reserved_ports": ",".join(map(str, workload.reserved_ports)),
            "master_port": workload.master_port,
            "tools": ("neuron_parallel_compile", "torchrun") if compiling else ("torchrun",),
            "arguments": filled.compiling if compiling else filled.training,
            "resume_arguments": workload.checkpoint.resume_arguments,
            "no_source": _no_source(workload, request.mount),
            "no_tool": _no_tool(workload, request),
            "usr1_notice": _usr1_notice(workload),
        },
    )


def _no_source(workload: WorkloadSpec, mount: str) -> str:
    """What is missing, and the one line that brings it."""
    source = workload.source
    missing = f"The training code is not there: {code_folder(mount, source)}/{workload.script}."
    if workload.workdir:
        return f"{missing} Bring it there: trnctl sync {workload.name}"
    root = code_folder(mount, Source(source.repository, source.commit))
    clone = f"git clone {source.repository} {root} && git -C {root} checkout {source.commit}"
    return f"{missing} Fetch it on the head node: {clone}"


def _no_tool(workload: WorkloadSpec, request: JobRequest) -> str:
    if workload.source.shipped:
        where = workload.virtualenv.replace("{mount}", request.mount) or "the PATH of the nodes"
        return f"Install PyTorch in {where}: pip install 'torch>=2.8,<2.14' safetensors, or name its virtualenv."
    return f"Install the Neuron SDK {request.sdk} there, or use an image that has it."


def _usr1_notice(workload: WorkloadSpec) -> str:
    if workload.checkpoint.on_signal:
        return "the time limit is near (USR1): the workers are asked to save"
    lost = "what was trained since the last checkpoint will be lost"
    return f"the time limit is near (USR1): the script does not save on a signal, so {lost}"


def _literal(path: str) -> str:
    """A path in a file name pattern of Slurm, where a percent sign begins a placeholder."""
    return path.replace("%", "%%")


def _check(request: JobRequest) -> None:
    """The user's words that become names or Slurm options; everything else is quoted."""
    if _RUN.fullmatch(request.run) is None:
        raise UsageError(
            f"{request.run!r} cannot name a run: it becomes the name of a folder and of two jobs.",
            remedy="Use letters, digits, dots, hyphens and underscores, beginning with a letter or digit.",
        )
    if request.time_limit is not None and TIME_LIMIT.fullmatch(request.time_limit) is None:
        raise UsageError(
            f"{request.time_limit!r} is no time limit.",
            remedy="Write minutes, or hours:minutes:seconds, or days-hours, as in --time 8:00:00.",
        )

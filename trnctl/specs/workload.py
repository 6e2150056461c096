"""A workload recipe as frozen values: what to run, how it scales, what it prints, and where each number comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trnctl.specs.model import Model
from trnctl.specs.parallelism import Parallelism, Stack
from trnctl.specs.preparation import DataSet, HubModel

Scaling = Literal["strong", "weak"]
Value = str | int | float | bool
CompleteWhen = Literal["zip", "done-file", "exists"]
SHIPPED = ("fsdp_trainer",)  # folders of examples/ that a recipe may name as its code
COMPLETE_WHEN: tuple[CompleteWhen, ...] = ("zip", "done-file", "exists")

# What a recipe may write in braces, and what stands there when a job is rendered.
PLACEHOLDERS: Mapping[str, str] = {
    "nodes": "the number of nodes",
    "ranks": "workers on each node",
    "world": "workers in all",
    "micro_batch": "sequences in one forward pass of a worker",
    "accumulation": "forward passes before each optimizer step",
    "global_batch": "sequences in an optimizer step of all workers",
    "steps": "optimizer steps in all",
    "checkpoints": "the run's folder for checkpoints",
    "output": "the run's folder for everything else that the script writes",
    "replica_batch": "sequences that a model replica takes in an optimizer step: micro batch x accumulation",
    "tensor": "the tensor-parallel degree",
    "pipeline": "the pipeline-parallel degree",
    "context": "the context-parallel degree",
    "every_steps": "optimizer steps between two checkpoints",
    "run": "the run's folder",
    "source": "the folder of the recipe's code",
    "data": "the folder of prepared data sets on shared storage",
    "hub": "the folder of models of the Hugging Face hub on shared storage",
    "mount": "the shared file system",
}


@dataclass(frozen=True)
class Source:
    """The training code: a repository at a pinned commit, and the folder in it that is the working directory; or
    `shipped`, one of trnctl's own examples, which travels in the run's folder and needs not be fetched. Of the user's
    own code (`WorkloadSpec.workdir`) the name of its folder, and the digest of its content."""

    repository: str
    commit: str
    path: str = ""
    shipped: str = ""


@dataclass(frozen=True)
class Batch:
    """Sequences per optimizer step. On the recipe's own number of nodes, `global_size` is micro x accumulation x the
    workers that see different data: all of them, unless some share a model.

    Strong scaling keeps `global_size` and divides `accumulation` by the nodes; weak scaling keeps `accumulation`.
    `sequence` is in tokens.
    """

    global_size: int
    micro: int
    accumulation: int
    sequence: int


@dataclass(frozen=True)
class LogPattern:
    """How the script's step line reads: a regular expression with the groups `step`, `loss` and `throughput`
    (each optional but `step`), and the unit of the throughput. `first` is the number of the first step's line: some
    scripts count from 0. `printed_by` is who prints it, and in whose node's log it stands: the first worker of all, or
    the first of the last pipeline stage, which alone knows the loss."""

    step: str
    unit: str = "seq/s"
    first: Literal[0, 1] = 1
    printed_by: Literal["first-worker", "last-stage"] = "first-worker"


@dataclass(frozen=True)
class Checkpoint:
    """What the script really does about checkpoints.

    `on_signal`: whether it saves when it gets SIGTERM or SIGUSR1. `pattern` is a glob in the run's `checkpoints`
    folder; `cadence` says in words when it writes one, and `every_steps` after how many optimizer steps, where that is
    a number. `resume_arguments` are added when a run starts again and a complete checkpoint is there (`{checkpoint}` is
    the path of the newest). `resumes` says in words what a resumed run does not get back, if
    anything. `complete_when` tells a complete one from one that was being written when its writer died: `zip` for what
    torch.save writes (a zip archive, whose directory comes last), `done-file` for a folder that holds a file named
    `done` (NeuronX Distributed), `exists` where a script renames finished files into place.
    """

    pattern: str
    on_signal: bool = False
    cadence: str = ""
    every_steps: int | None = None
    resume_arguments: tuple[str, ...] = ()
    resumes: str = ""
    complete_when: CompleteWhen = "exists"


@dataclass(frozen=True)
class FromRun:
    """The run that this one cannot start without: one of `recipes`, whose newest whole checkpoint it starts from, and
    why. `argument` takes its place when the user sets it: the path of a checkpoint from elsewhere. `step_argument` is
    the argument that tells the script how many steps that run did: a checkpoint of another step is refused."""

    recipes: tuple[str, ...] = ()
    why: str = ""
    argument: str = ""
    step_argument: str = ""


@dataclass(frozen=True)
class Software:
    """What the recipe was written for: the first and the last Neuron SDK, and operating systems in ParallelCluster's
    words; empty means that it does not say. Outside of it nothing is known, so that is a warning; what cannot work is
    refused by `specs.sdk.pairing`."""

    first_sdk: str = ""
    last_sdk: str = ""
    os: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """Where sources disagree: about what, the value that this recipe takes, what each source says, and why it is so."""

    what: str
    ours: str
    sources: Mapping[str, str]  # source -> its value
    why: str


@dataclass(frozen=True)
class Published:
    """A published throughput, the only ground for a prediction: `rate` in the recipe's unit at `nodes` nodes."""

    nodes: int
    rate: float
    scaling: Scaling
    source: str
    note: str = ""
    instance_type: str = "trn1.32xlarge"


@dataclass(frozen=True)
class Claim:
    """What somebody says of a run's length, to be held against the prediction: under `hours_under` on `nodes`."""

    nodes: int
    hours_under: float
    source: str


@dataclass(frozen=True)
class WorkloadSpec:
    """One recipe.

    `plan_only` is the reason why a recipe can be planned but not submitted; then `source`, `script`, `log` and
    `checkpoint` are empty. `stack` is what the training code speaks on Trainium.

    `graph_neutral` names arguments that change no compiled graph, whatever their values. `experimental` is the reason
    why nobody should count on it yet. `choices` are where AWS's documents and scripts disagree.

    Arguments, overrides, environment and `virtualenv` may hold the words of `PLACEHOLDERS` in braces; they are filled
    by `plan.arguments`. An argument that is true is passed as a bare flag, one that is false is left out. `overrides`
    follow the arguments as `name=value`, which is how Hydra takes changes to a configuration file. What begins with
    `compile_` is added in the compile stage, and replaces what training has under the same name.
    """

    name: str
    title: str
    source: Source
    script: str
    arguments: Mapping[str, Value]
    batch: Batch
    steps: int
    log: LogPattern
    checkpoint: Checkpoint
    nodes: int = 1  # when the user names no number
    ranks_per_node: Mapping[str, int] = field(default_factory=dict)  # by instance type; its keys are what can run it
    environment: Mapping[str, str] = field(default_factory=dict)
    multi_node_environment: Mapping[str, str] = field(default_factory=dict)
    compile: Literal["neuron_parallel_compile", "none"] = "neuron_parallel_compile"
    overrides: Mapping[str, Value] = field(default_factory=dict)
    compile_arguments: Mapping[str, Value] = field(default_factory=dict)
    compile_overrides: Mapping[str, Value] = field(default_factory=dict)
    compile_environment: Mapping[str, str] = field(default_factory=dict)
    compile_minutes: float | None = None
    workdir: str = ""  # the user's own code, a folder beside the recipe; then `source` is known only at submit
    data: tuple[DataSet, ...] = ()
    requirements: tuple[str, ...] = ()  # packages on top of `virtualenv`, each NAME==VERSION
    hub: tuple[HubModel, ...] = ()
    data_source: str = ""  # how a person gets the data set: a command for the head node, or a sentence
    graph_neutral: tuple[str, ...] = ()
    master_port: int = 2022
    reserved_ports: tuple[int, ...] = (48620,)
    virtualenv: str = ""  # activated on the nodes when it is there
    dataset: str = ""
    model: str = ""  # its name
    shape: Model | None = None  # what memory and time are computed from
    parallelism: Parallelism = field(default_factory=Parallelism)
    stack: Stack = "torchrun-ddp"
    plan_only: str = ""
    experimental: str = ""
    from_run: FromRun = field(default_factory=FromRun)
    software: Software = field(default_factory=Software)
    choices: tuple[Choice, ...] = ()
    published: tuple[Published, ...] = ()
    claims: tuple[Claim, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)  # what -> where its numbers come from

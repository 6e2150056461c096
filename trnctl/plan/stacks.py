"""Rules of the training stacks: what each back end, instance type and platform can do with the words of a recipe."""

from __future__ import annotations

from collections.abc import Iterator

from trnctl.findings import Finding
from trnctl.plan.division import finding
from trnctl.plan.proposal import Proposal
from trnctl.plan.words import listed
from trnctl.specs.parallelism import Backend, Parallelism

_SMP_PLATFORMS = {"sagemaker", "hyperpod"}
_SMP_FAMILIES = ("p4d.", "p4de.", "p5.")
_SMDDP_FAMILIES = ("p4d.", "p4de.")
# Tensor degrees of Trainium2 by physical cores a worker (LNC): 4 in a chip (Neuron's best practices for training), 16
# and 32 in NxDT's 8B and 70B configurations, 64 as the largest at LNC 2 and in its 405B configuration at LNC 1.
TRN2_TENSOR = {1: (1, 64), 2: (1, 4, 16, 32, 64)}
# Workers on a node that the runtime takes, and those that it takes with topology limits (Neuron's BERT tutorial).
WORKERS = {
    "trn1.2xlarge": ((1, 2), ()),
    "trn1.32xlarge": ((1, 2, 8, 32), (16,)),
    "trn1n.32xlarge": ((1, 2, 8, 32), (16,)),
    "trn2.3xlarge": ((4, 8), ()),
    "trn2.48xlarge": ((64, 128), ()),
    "trn2u.48xlarge": ((64, 128), ()),
}
_COUNTS_WORKERS = ("NEURON_RT_NUM_CORES", "TPU_NUM_DEVICES", "TPU_CHIPS_PER_HOST_BOUNDS")


def offload_needs_checkpointing(p: Proposal) -> Iterator[Finding]:
    """P12: what is moved to the host is what checkpointing keeps."""
    activation = p.words.activation
    comes_back = activation.horizon is not None and activation.offload is not False
    if p.checkpoint == "none" and (activation.offload or comes_back):
        word = "offload" if activation.offload else "horizon"
        yield finding(
            "P12",
            "offload-without-checkpoint",
            f"activation.{word} speaks of the inputs of checkpointed layers, and nothing is checkpointed.",
            f"Write checkpoint: full beside it, or leave {word} out.",
            path=f"parallelism.activation.{word}",
        )


def smp_has_its_places(p: Proposal) -> Iterator[Finding]:
    """P13: SageMaker's library runs on SageMaker and HyperPod, with the types that its documentation names. That it has
    no pipeline is among the words that it does not know."""
    if p.backend != "smp":
        return
    if p.platform not in _SMP_PLATFORMS:
        yield finding(
            "P13",
            "smp-platform",
            "SageMaker's model parallel library runs on SageMaker and HyperPod, not on a ParallelCluster queue.",
            f"Write the same in open PyTorch: parallelism: {{{fsdp_words(p)}}}. To plan for smp itself, use a cluster "
            "file with platform: hyperpod.",
            path="parallelism.backend",
        )
    if not p.instance_type.startswith(_SMP_FAMILIES):
        yield finding(
            "P13",
            "smp-instance-type",
            f"smp is documented for p4d, p4de and p5, not for {p.instance_type}.",
            "Use one of these types, or backend: fsdp.",
            path="parallelism.backend",
        )


def fsdp_words(p: Proposal) -> str:
    """The words of the same layout in open PyTorch."""
    words = p.words
    parts = ["backend: fsdp"]
    parts += [f"tensor: {words.tensor}"] if words.tensor > 1 else []
    parts += [f"shard: {words.shard if words.shard is not None else 'full'}"]
    activation = []
    if words.activation.checkpoint is not None:
        activation.append(f"checkpoint: {words.activation.checkpoint}")
    if words.activation.offload:
        activation += ["offload: true", f"horizon: {p.horizon}"]
    parts += [f"activation: {{{', '.join(activation)}}}"] if activation else []
    parts += [f"seed: {words.seed}"] if words.seed is not None else []
    return ", ".join(parts)


def smddp_has_its_places(p: Proposal) -> Iterator[Finding]:
    """P14: SageMaker's collectives replace NCCL's for sharded data over several p4d or p4de."""
    if p.words.collectives != "smddp":
        return
    reasons = []
    if not p.instance_type.startswith(_SMDDP_FAMILIES):
        reasons.append(f"it supports p4d and p4de, not {p.instance_type}")
    if p.nodes < 2:
        reasons.append("it needs two nodes or more")
    if p.words.tensor > 1 and p.shard == 1:
        reasons.append("with tensor parallelism it needs a sharded state")
    if reasons:
        yield finding(
            "P14",
            "smddp-unsupported",
            f"smddp cannot carry the collectives here: {'; '.join(reasons)}.",
            "Write collectives: nccl.",
            path="parallelism.collectives",
        )


def collectives_fit_the_device(p: Proposal) -> Iterator[Finding]:
    """P14: each kind of device has its own collectives."""
    allowed = {"trainium": ("neuron",), "gpu": ("nccl", "smddp", "gloo"), "cpu": ("gloo",)}.get(p.kind)
    if allowed and p.collectives not in allowed:
        yield finding(
            "P14",
            "collectives-device",
            f"{p.instance_type} has no {p.collectives} collectives.",
            f"Write collectives: auto, or one of {', '.join(allowed)}.",
            path="parallelism.collectives",
        )


def nxd_has_its_words(p: Proposal) -> Iterator[Finding]:
    """P15: NeuronX Distributed shards the optimizer's state and nothing else."""
    if not p.nxd:
        return
    words = p.words
    wrong = []
    if words.activation.offload:
        wrong.append(
            ("activation.offload", "no activation offloading", "Leave offload out; checkpoint: full holds least.")
        )
    if words.shard not in {None, "none"}:
        wrong.append(("shard", "no sharding of parameters", "Leave shard out; zero: 1 shards the optimizer's state."))
    if words.zero == 3:
        wrong.append(
            ("zero", "no ZeRO stage 3", "Write zero: 1, and a larger tensor or pipeline degree where it does not fit.")
        )
    if words.context > 1 and not words.ring_attention:
        wrong.append(
            ("context", "no context parallelism without ring attention", "Write ring_attention: true beside it.")
        )
    if words.master_weights == "bf16" and p.zero != 1:
        wrong.append(("master_weights", "no bf16 master weights without zero: 1", "Write zero: 1."))
    for word, what, remedy in wrong:
        yield finding("P15", "nxd-word", f"{p.backend} has {what}.", remedy, path=f"parallelism.{word}")


def trn2_has_its_degrees(p: Proposal) -> Iterator[Finding]:
    """P16: on Trainium2 only some pairs of tensor degree and logical core configuration are documented."""
    if not p.instance_type.startswith("trn2"):
        return
    allowed = TRN2_TENSOR.get(p.logical_cores, ())
    if p.words.tensor not in allowed:
        yield finding(
            "P16",
            "trn2-tensor",
            f"A tensor degree of {p.words.tensor} with {p.ranks} workers on {p.instance_type} (LNC {p.logical_cores}) "
            "is not among the documented pairs.",
            f"Documented for LNC {p.logical_cores} are {listed(allowed)}."
            if allowed
            else "Use LNC 2: 64 workers a node.",
            path="parallelism.tensor",
        )


def backend_fits_the_device(p: Proposal) -> Iterator[Finding]:
    """P17: native PyTorch, and with it FSDP, exists for Trainium2 and later, and GPUs; Neuron's stacks for Trainium."""
    facts = p.facts
    if p.backend == "fsdp" and facts is not None and facts.trainium1:
        yield finding(
            "P17",
            "fsdp-on-trn1",
            f"fsdp needs native PyTorch, and Neuron brings that to Trainium2 and later, not to {p.instance_type}.",
            "Write backend: nxd, which splits by tensor and pipeline and shards the optimizer by zero: 1; or use trn2.",
            path="parallelism.backend",
        )
    if p.nxd and p.kind == "gpu":
        yield finding(
            "P17",
            "nxd-on-gpu",
            f"{p.backend} runs on Trainium, not on {p.instance_type}.",
            "Write backend: fsdp, or leave backend out.",
            path="parallelism.backend",
        )


def workers_are_legal(p: Proposal) -> Iterator[Finding]:
    """P18: the runtime takes some numbers of workers on a node, and all that names one names the same."""
    legal, limited = WORKERS.get(p.instance_type, ((), ()))
    if legal and p.ranks not in legal:
        yield finding(
            "P18",
            "worker-count",
            f"{p.ranks} workers on one {p.instance_type} "
            + ("work only with limits of the topology." if p.ranks in limited else "are not a number that it can run."),
            f"Write one of {listed(legal)} in ranks_per_node.",
            path=f"ranks_per_node.{p.instance_type}",
            level="warning" if p.ranks in limited else "error",
        )
    environment = {**p.workload.environment, **p.workload.multi_node_environment}
    for name in _COUNTS_WORKERS:
        said = environment.get(name, "{ranks}")
        if said not in {"{ranks}", str(p.ranks)}:
            yield finding(
                "P18",
                "worker-count-differs",
                f"{name} says {said}, and torchrun starts {p.ranks} workers on a node.",
                f'Write {name}: "{{ranks}}", which follows.',
                path=f"environment.{name}",
            )
    root = environment.get("NEURON_RT_ROOT_COMM_ID", "").rpartition(":")[2]
    if root and root == str(p.workload.master_port):
        yield finding(
            "P18",
            "port-taken-twice",
            f"torchrun and the Neuron runtime would both listen on port {root}.",
            "Choose another master_port, or another port in NEURON_RT_ROOT_COMM_ID.",
            path="master_port",
        )


# What the recipe may not say to a stack, since nothing in it could obey.
_REFUSES: dict[Backend, tuple[str, ...]] = {
    "torchrun-ddp": ("tensor", "pipeline", "context", "expert", "shard", "zero", "checkpoint", "offload"),
    "nxd": ("checkpoint-none",),
    "nxdt": (),
    "fsdp": ("pipeline", "context", "expert", "zero-1"),
    "smp": ("pipeline", "zero-1"),
}
# What it may say without effect; why, in the words of a person who moves from one stack to another.
_IGNORES: dict[Backend, dict[str, str]] = {
    "torchrun-ddp": {
        "sequence_parallel": "there is no tensor parallelism",
        "ring_attention": "there is no context parallelism",
        "deferred_init": "every worker builds the whole model",
        "reshard_after_forward": "nothing is sharded",
        "seed": "the script has its own argument for it",
        "smp": "these are SageMaker's words",
    },
    "nxd": {"reshard_after_forward": "parameters are not sharded", "smp": "these are SageMaker's words"},
    "nxdt": {
        "reshard_after_forward": "parameters are not sharded",
        "deferred_init": "its configuration has use_cpu_initialization instead",
        "smp": "these are SageMaker's words",
    },
    "fsdp": {"ring_attention": "there is no context parallelism", "smp": "these are SageMaker's words"},
    "smp": {
        "reshard_after_forward": "the script chooses the sharding strategy",
        "sequence_parallel": "the library decides it",
        "ring_attention": "the library has its own implementation",
        "deferred_init": "the script calls DelayedParamIniter, no key of the configuration does",
        "checkpoint": "the script calls its checkpoint wrapper, no key of the configuration does",
        "master_weights": "the script chooses the precision",
        "reduce": "the script chooses the precision",
        "collectives": "the launcher chooses them",
    },
}


def words_are_known(p: Proposal) -> Iterator[Finding]:
    """P15: a word that the stack does not know is refused, or shown as a downgrade; it is never dropped."""
    yield from unknown_words(p.backend, p.words)


def unknown_words(backend: Backend, words: Parallelism) -> Iterator[Finding]:
    """The words that a back end refuses, then those that have no effect there."""
    said = said_words(words)
    for word in _REFUSES[backend]:
        if word in said:
            yield finding(
                "P15",
                "word-refused",
                f"{backend} does not know {said[word]}.",
                "Leave it out, or choose a backend that knows it.",
                path=f"parallelism.{word.partition('-')[0]}",
            )
    for word, why in _IGNORES[backend].items():
        if word in said:
            yield finding(
                "P15",
                "word-downgraded",
                f"{said[word]} has no effect with {backend}: {why}.",
                "Nothing needs to be done; leave it out to be rid of this line.",
                path=f"parallelism.{word}",
                level="warning",
            )


def said_words(words: Parallelism) -> dict[str, str]:
    """The words that the recipe says and that ask for something, as it would write them."""
    activation = words.activation
    said = {
        name: f"{name}: {getattr(words, name)}"
        for name in ("tensor", "pipeline", "context", "expert")
        if getattr(words, name) > 1
    }
    said |= {
        name: f"{name}: {str(getattr(words, name)).lower()}"
        for name in (
            "sequence_parallel", "ring_attention", "deferred_init", "reshard_after_forward", "master_weights",
            "reduce", "collectives", "seed",
        )
        if getattr(words, name) is not None
    }  # fmt: skip
    said |= {"shard": f"shard: {words.shard}"} if words.shard not in {None, "none"} else {}
    said |= {"zero": f"zero: {words.zero}"} if words.zero else {}
    said |= {"zero-1": "zero: 1"} if words.zero == 1 else {}
    checkpoint = activation.checkpoint
    said |= {"checkpoint": f"checkpoint: {checkpoint}"} if checkpoint in {"selective", "full"} else {}
    said |= {"checkpoint-none": "checkpoint: none"} if checkpoint == "none" else {}
    said |= {"offload": "offload: true"} if activation.offload else {}
    smp = [name for name, value in vars(words.smp).items() if value is not None]
    return said | ({"smp": ", ".join(f"smp.{name}" for name in smp)} if smp else {})

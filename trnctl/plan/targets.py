"""Compiles a layout to what each training stack reads: documents, environment, and the command that starts a node."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from trnctl.findings import Finding, errors_among
from trnctl.plan.proposal import Proposal
from trnctl.plan.rules import check, refusal
from trnctl.plan.smp import exported
from trnctl.specs.parallelism import Backend

SMP_DOCUMENT = "smp_config.json"
_NXD_TENSOR, _NXD_PIPELINE = "tp_zero1_llama_hf_pretrain.py", "run_llama_nxd.py"
_NODE_RANK, _MASTER = "$SLURM_NODEID", "$MASTER_ADDR"  # what the batch script sets on each node


@dataclass(frozen=True)
class Step:
    """One command on every node, with variables of its own; `name` is compile or train."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    """What a stack reads. `steps` are empty where trnctl does not start the stack (smp). `downgrades` are the words of
    the recipe that have no effect there."""

    backend: Backend
    documents: Mapping[str, str]
    steps: tuple[Step, ...]
    downgrades: tuple[Finding, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The stable JSON form."""
        return {
            "backend": self.backend,
            "documents": dict(self.documents),
            "steps": [{"name": s.name, "argv": list(s.argv), "environment": dict(s.environment)} for s in self.steps],
            "downgrades": [finding.as_json() for finding in self.downgrades],
        }


def compiled(p: Proposal) -> Compiled:
    """The target of a proposal. UsageError, as in `resolve`, when a rule refuses it."""
    findings = check(p)
    if errors_among(findings):
        raise refusal(p, findings)
    documents, steps = _TARGETS[p.backend](p)
    downgrades = [one for one in findings if one.code == "word-downgraded"]
    if p.nxd and p.model is not None and p.model.family != "llama":
        downgrades.append(
            Finding(
                "target-script",
                "warning",
                f"The arguments are those of the Llama examples; {p.backend}'s script for {p.model.name} is another.",
                "Compare them with that script before you start it.",
                path="script",
            )
        )
    return Compiled(p.backend, documents, steps, tuple(downgrades))


def documents_of(p: Proposal) -> Mapping[str, str]:
    """What the stack reads, whatever the rules say: of a layout that was admitted before, or forced."""
    return _TARGETS[p.backend](p)[0]


def _torchrun(p: Proposal, script: str, *arguments: str) -> tuple[str, ...]:
    """torchrun with a static rendezvous on the first node, as in all of Neuron's samples."""
    return (
        "torchrun", "--nnodes", str(p.nodes), "--nproc_per_node", str(p.ranks), "--node_rank", _NODE_RANK,
        "--master_addr", _MASTER, "--master_port", str(p.workload.master_port), script, *arguments,
    )  # fmt: skip


def _ddp(p: Proposal) -> tuple[Mapping[str, str], tuple[Step, ...]]:
    """The arguments that the recipe names for the layout's numbers, in its own words."""
    numbers = {
        "{micro_batch}": str(p.micro),
        "{accumulation}": str(p.accumulation),
        "{global_batch}": str(p.global_batch),
    }
    arguments = [
        f"--{name}={numbers[value]}"
        for name, value in p.workload.arguments.items()
        if isinstance(value, str) and value in numbers
    ]
    return {}, (Step("train", _torchrun(p, _script(p, "train.py"), *arguments)),)


def _script(p: Proposal, usual: str) -> str:
    """The recipe's own script where it speaks this stack, else the stack's usual one."""
    own = p.workload.script if p.workload.stack == p.backend else ""
    return own or usual


def _nxd(p: Proposal) -> tuple[Mapping[str, str], tuple[Step, ...]]:
    """The arguments of NxD Core's example scripts: one for tensor parallelism alone, one with a pipeline. Its compile
    step is neuron_parallel_compile before the same command."""
    words, sequence = p.words, str(p.workload.batch.sequence)
    if words.pipeline == 1:
        script = _script(p, _NXD_TENSOR)
        arguments = [
            "--tensor_parallel_size", str(words.tensor), "--batch_size", str(p.micro),
            "--grad_accum_usteps", str(p.accumulation), "--seq_len", sequence, "--use_mix_precision",
            *(["--use_zero_1"] if p.zero == 1 else []),
            *(["--sequence_parallel_enabled"] if p.sequence_parallel else []),
            *(["--selective_checkpoint_enabled"] if p.checkpoint == "selective" else []),
        ]  # fmt: skip
    else:
        script = _script(p, _NXD_PIPELINE)
        arguments = [
            "--tensor_parallel_size", str(words.tensor), "--pipeline_parallel_size", str(words.pipeline),
            "--train_batch_size", str(p.micro * p.accumulation), "--num_microbatches", str(p.accumulation),
            "--seq_len", sequence, "--use_zero1_optimizer", str(int(p.zero == 1)),
            "--use_selective_checkpoint", str(int(p.checkpoint == "selective")),
            "--use_meta_device_init", str(int(words.deferred_init is not False)),
        ]  # fmt: skip
    arguments += ["--kv_replicator", str(p.kv_multiplier)] if p.kv_multiplier > 1 else []
    argv = _torchrun(p, script, *arguments)
    return {}, (Step("compile", ("neuron_parallel_compile", *argv)), Step("train", argv))


def _nxdt(p: Proposal) -> tuple[Mapping[str, str], tuple[Step, ...]]:
    """An overlay of NxDT's configuration, and its launcher twice: first with COMPILE=1, then without."""
    words = p.words
    strategy: dict[str, object] = {
        "tensor_model_parallel_size": words.tensor,
        "pipeline_model_parallel_size": words.pipeline,
        "virtual_pipeline_model_parallel_size": 1,
        "zero1": p.zero == 1,
        "sequence_parallel": p.sequence_parallel,
    }
    strategy |= {"context_parallel_size": words.context} if words.context > 1 else {}
    strategy |= {"expert_model_parallel_size": words.expert} if words.expert > 1 else {}
    strategy |= {"kv_replicator": p.kv_multiplier} if p.kv_multiplier > 1 else {}
    model: dict[str, object] = {"encoder_seq_length": p.workload.batch.sequence}
    model["activations_checkpoint_granularity"] = None if p.checkpoint == "none" else p.checkpoint
    if words.ring_attention:
        model["fusions"] = {"ring_attention": True}
    overlay: dict[str, object] = {"seed": words.seed} if words.seed is not None else {}
    overlay |= {
        "trainer": {"devices": p.ranks, "num_nodes": p.nodes, "max_steps": p.workload.steps},
        "distributed_strategy": strategy,
        "data": {"micro_batch_size": p.micro, "global_batch_size": p.global_batch},
        "model": model,
    }
    if words.master_weights is not None:
        overlay["precision"] = {"type": "manual", "master_weights": words.master_weights == "fp32"}
    name = f"{p.workload.name}_config"
    launch = ("./train.sh",)
    return {f"{name}.yaml": _yaml(overlay)}, (
        Step("compile", launch, {"CONF_FILE": name, "COMPILE": "1"}),
        Step("train", launch, {"CONF_FILE": name, "COMPILE": "0"}),
    )


def _yaml(value: Mapping[str, object]) -> str:
    import yaml  # only where a document is written: planning starts without it

    return str(yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True))


def _fsdp(p: Proposal) -> tuple[Mapping[str, str], tuple[Step, ...]]:
    """parallel.json of the reference trainer in plain PyTorch: the model, the mesh, and what is done on it, with every
    default written out."""
    words = p.words
    document = {
        "model": asdict(p.model) if p.model is not None else None,
        "mesh": {"replicate": p.replicas, "shard": p.shard, "tensor": words.tensor},
        "reshard_after_forward": p.reshards,
        "sequence_parallel": p.sequence_parallel,
        "activation": {"checkpoint": p.checkpoint, "offload": p.horizon is not None, "horizon": p.horizon},
        "deferred_init": words.deferred_init is not False,
        "collectives": p.collectives,
        "reduce": p.reduce,
        "master_weights": words.master_weights or "fp32",
        "seed": words.seed if words.seed is not None else 0,
        "batch": {
            "micro": p.micro,
            "accumulation": p.accumulation,
            "global": p.global_batch,
            "sequence": p.workload.batch.sequence,
        },
    }
    return {"parallel.json": _json(document)}, (
        Step("train", _torchrun(p, _script(p, "train.py"), "--parallel", "parallel.json")),
    )


def _smp(p: Proposal) -> tuple[Mapping[str, str], tuple[Step, ...]]:
    """The configuration for SageMaker or HyperPod; who starts it there is not trnctl."""
    return {SMP_DOCUMENT: _json(exported(p.words))}, ()


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=2) + "\n"


_TARGETS: Mapping[Backend, Callable[[Proposal], tuple[Mapping[str, str], tuple[Step, ...]]]] = {
    "torchrun-ddp": _ddp,
    "nxd": _nxd,
    "nxdt": _nxdt,
    "fsdp": _fsdp,
    "smp": _smp,
}

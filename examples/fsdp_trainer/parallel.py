"""From a model's shape to a model that is spread over ranks: tensor parallel, checkpointed, sharded, initialised."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from model import Head, Shape, Transformer
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def start(device: torch.device, wanted: str, say: Callable[[str], None]) -> str:
    """Join the other ranks; the collectives that carry it: those wanted, else the next of smddp, nccl, gloo, aloud."""
    if wanted == "smddp":
        try:
            import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401  registers the back end
        except ImportError as error:
            say(f"collectives: smddp is not here ({error}); falling back to nccl")
            wanted = "nccl"
    if wanted == "nccl" and device.type != "cuda":
        say(f"collectives: nccl needs a GPU, and this is {device.type}; falling back to gloo")
        wanted = "gloo"
    dist.init_process_group(wanted if device.type == "cpu" else f"cpu:gloo,{device.type}:{wanted}")
    return wanted


def mesh_of(degrees: dict[str, int], device: torch.device) -> DeviceMesh:
    """Ranks as (replicate, shard, tensor); the tensor ranks are neighbours."""
    names = ("replicate", "shard", "tensor")
    sizes = tuple(degrees[name] for name in names)
    ranks = sizes[0] * sizes[1] * sizes[2]
    if ranks != dist.get_world_size():
        raise SystemExit(f"parallel.json is for {ranks} ranks {sizes}, and {dist.get_world_size()} were started")
    return init_device_mesh(device.type, sizes, mesh_dim_names=names)


def build(shape: Shape, layout: dict[str, Any], mesh: DeviceMesh, device: torch.device, precision: str) -> Transformer:
    """The model as the layout spreads it. With `deferred_init` no rank ever holds more than its own part and one whole
    parameter; without, each builds the whole model first."""
    deferred, tensor = layout["deferred_init"], mesh["tensor"]
    with torch.device("meta" if deferred else device):
        model = Transformer(shape).to(DTYPES[layout["master_weights"]])
    if not deferred:
        initialise(model, layout["seed"])
    if tensor.size() > 1:
        split(model, tensor, layout["sequence_parallel"])
    remember_less(model, layout["activation"]["checkpoint"])
    places = mesh["replicate", "shard"] if mesh["replicate"].size() > 1 else mesh["shard"]
    policy = MixedPrecisionPolicy(param_dtype=DTYPES[precision], reduce_dtype=DTYPES[layout["reduce"]])
    sharded = partial(fully_shard, mesh=places, mp_policy=policy, reshard_after_forward=layout["reshard_after_forward"])
    for layer in model.model.layers:
        sharded(layer)
    sharded(model)
    if deferred:
        model.to_empty(device=device)
        initialise(model, layout["seed"])
    return model


def split(model: Transformer, mesh: DeviceMesh, by_sequence: bool) -> None:
    """Tensor parallelism; by sequence, what lies between the split matrices is split along the positions."""
    shape = model.shape
    if shape.heads % mesh.size() or shape.kv_heads % mesh.size() or shape.ffn % mesh.size():
        raise SystemExit(f"tensor {mesh.size()} must divide heads, kv_heads and ffn: {shape}")
    between = Shard(1) if by_sequence else Replicate()
    embedding = RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
    norm = SequenceParallel(use_local_output=True) if by_sequence else None
    gather = PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(Replicate(),))
    columns, rows = ColwiseParallel(), RowwiseParallel(output_layouts=between)
    block = {"input_layernorm": norm, "post_attention_layernorm": norm, "self_attn": gather, "mlp": gather}
    block |= {f"self_attn.{one}_proj": columns for one in "qkv"} | {"self_attn.o_proj": rows}
    block |= {"mlp.gate_proj": columns, "mlp.up_proj": columns, "mlp.down_proj": rows}
    plan = {"embed_tokens": embedding, "positions": embedding, "norm": norm}
    plan |= {f"layers.{number}.{name}": style for number in range(shape.layers) for name, style in block.items()}
    there = {name for name, module in model.model.named_modules() if module is not None}
    parallelize_module(model.model, mesh, {n: style for n, style in plan.items() if style is not None and n in there})
    distribute_module(model.lm_head, mesh, split_head, lambda _, inputs, mesh: gathered(inputs, mesh, between))


def split_head(_: str, module: nn.Module, mesh: DeviceMesh) -> None:
    """The output layer by words of the vocabulary; what stands before it, on every rank."""
    for name, parameter in module.named_parameters(recurse=False):
        place = Shard(0) if isinstance(module, Head) else Replicate()
        module.register_parameter(name, nn.Parameter(distribute_tensor(parameter, mesh, [place])))


def gathered(inputs: tuple[Tensor, Tensor], mesh: DeviceMesh, layout: Any) -> tuple[Tensor, Tensor]:
    """What the output layer gets: hidden states of all positions."""
    hidden, embedding = inputs
    return DTensor.from_local(hidden, mesh, [layout]).redistribute(placements=[Replicate()]), embedding


def remember_less(model: Transformer, what: str) -> None:
    """Recompute in backward instead of keeping: whole layers (full), or only their attention (selective)."""
    for layer in model.model.layers if what != "none" else ():
        part = layer if what == "full" else layer.self_attn
        part.forward = partial(checkpoint, part.forward, use_reentrant=False)


@torch.no_grad()
def initialise(model: nn.Module, seed: int) -> None:
    """Every parameter from its own name, so that all layouts start equal; norms at one, biases at zero."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif "norm" in name:
            parameter.fill_(1.0)
        else:
            key = int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:7], "big")
            dice = torch.Generator(parameter.device).manual_seed(key)
            fill(parameter, torch.empty(parameter.shape, device=parameter.device).normal_(0.0, 0.02, generator=dice))


def fill(parameter: Tensor, whole: Tensor) -> None:
    """Give a parameter its part of the whole value; nothing is sent, since every rank has it."""
    if isinstance(parameter, DTensor):
        mine = distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
        parameter.to_local().copy_(mine.to_local())
    else:
        parameter.copy_(whole)


def gradients(model: nn.Module) -> Iterator[tuple[Tensor, int]]:
    """This rank's part of each gradient, and how many ranks hold the same part."""
    for parameter in model.parameters():
        grad = parameter.grad
        if isinstance(grad, DTensor):
            sizes = zip(grad.device_mesh.shape, grad.placements, strict=True)
            split_over = [size for size, place in sizes if not place.is_replicate()]
            yield grad.to_local(), dist.get_world_size() // torch.Size(split_over).numel()
        elif grad is not None:
            yield grad, dist.get_world_size()


def sum_of_squares(model: nn.Module) -> Tensor:
    """What this rank adds to the square of the whole gradient's norm: each part counts once over all ranks."""
    return torch.stack([part.float().square().sum() / copies for part, copies in gradients(model)]).sum()

"""Checkpoints that any layout can read, and Llama weights in Hugging Face's form, in and out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from model import Shape
from parallel import fill
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.tensor import DTensor

SHARD_BYTES = 5 << 30


def save(folder: Path, progress: dict[str, int], model: nn.Module, optimizer: torch.optim.Optimizer, keep: int) -> Path:
    """Write step-N.partial with all ranks, then rename it: whatever is called step-N is whole."""
    there = folder / f"step-{progress['step']:08d}"
    half = there.with_suffix(".partial")
    if dist.get_rank() == 0:
        shutil.rmtree(half, ignore_errors=True)  # of a writer that was killed
    dist.barrier()
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state, "progress": progress}, checkpoint_id=half)
    if dist.get_rank() == 0:
        shutil.rmtree(there, ignore_errors=True)  # of the same step, by a run that was started again before it
        half.rename(there)
        for old in whole(folder)[: -max(keep, 1)]:
            shutil.rmtree(old)
    dist.barrier()
    return there


def whole(folder: Path) -> list[Path]:
    """The complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.suffix != ".partial")


def load(there: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Every rank reads its own part, however many wrote it; how far that run was."""
    weights, state = get_state_dict(model, optimizer)
    everything: dict[str, Any] = {"model": weights, "optimizer": state, "progress": {"step": 0, "sequences": 0}}
    dcp.load(everything, checkpoint_id=there)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    return dict(everything["progress"])


def shape_from(folder: Path, shape: Shape) -> Shape:
    """The shape, checked against the folder's config.json, with what only that knows."""
    config = json.loads((folder / "config.json").read_text())
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", "default") != "default":
        raise SystemExit(f"{folder} scales its rotary embedding, which this model does not know")
    for ours, theirs in NAMES.items():
        if getattr(shape, ours) != config[theirs]:
            raise SystemExit(f"parallel.json has {ours} {getattr(shape, ours)}, and {folder} has {config[theirs]}")
    theta = rope.get("rope_theta", config.get("rope_theta", 10_000.0))
    return replace(shape, rope_theta=theta, norm_eps=config["rms_norm_eps"])


NAMES = {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads", "ffn": "intermediate_size", "vocab": "vocab_size", "tied": "tie_word_embeddings",
}  # fmt: skip


@torch.no_grad()
def take_weights(folder: Path, model: nn.Module) -> None:
    """Fill the model from *.safetensors, one parameter in memory at a time. The names are the model's own."""
    files = sorted(folder.glob("*.safetensors"))
    place = {name: file for file in files for name in safe_open(file, framework="pt").keys()}  # noqa: SIM118  no mapping
    for name, parameter in model.named_parameters():
        if name not in place:
            raise SystemExit(f"{folder} has no {name}")
        with safe_open(place[name], framework="pt") as weights:
            fill(parameter, weights.get_tensor(name).to(parameter.device))


def give_weights(folder: Path, shape: Shape, model: nn.Module) -> None:
    """Write model-N.safetensors of at most 5 GB with their index and config.json; the first rank writes."""
    folder.mkdir(parents=True, exist_ok=True)
    index: dict[str, str] = {}
    for number, part in enumerate(parts(model), start=1):
        file = f"model-{number:05d}.safetensors"
        index |= dict.fromkeys(part, file)
        if dist.get_rank() == 0:
            save_file(part, folder / file, metadata={"format": "pt"})
    if dist.get_rank() == 0:
        config = {theirs: getattr(shape, ours) for ours, theirs in NAMES.items()}
        config |= {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu"}
        config |= {"rope_theta": shape.rope_theta, "rms_norm_eps": shape.norm_eps}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        text = json.dumps({"metadata": {}, "weight_map": index}, indent=2)
        (folder / "model.safetensors.index.json").write_text(text + "\n")


def parts(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Whole parameters, gathered by all ranks one by one, as many as fit into a file."""
    part: dict[str, Tensor] = {}
    size = 0
    for name, parameter in model.named_parameters():
        value = parameter.detach()
        value = (value.full_tensor() if isinstance(value, DTensor) else value).cpu().contiguous()
        if part and size + value.nbytes > SHARD_BYTES:
            yield part
            part, size = {}, 0
        part[name], size = value, size + value.nbytes
    yield part

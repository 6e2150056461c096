"""The command lines of the public Llama and GPT-NeoX scripts, and how each prints, saves and resumes.

The names are those of NeuronX Distributed 0.16 and of NxD Training 1.6. What does not shape the emulation is taken
and ignored; what a script does not know it refuses, as the original does (run_llama_nxd.py does not).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from trnctl.sandbox.neuron.collective import World
from trnctl.sandbox.neuron.emulation import NOTICE
from trnctl.sandbox.neuron.training import ScriptError

Saves = Literal["folders", "at the end"]


class Training(NamedTuple):
    """One training as its command line asks for it. `batch` is in sequences a step over all replicas; `every` are the
    steps between two checkpoints, 0 for none. `line` prints a step: its number from 1, loss, sequences a second.
    It prints every `interval` steps; a checkpoint is called `tag`."""

    config: str
    data: str
    steps: int
    batch: int
    accumulation: int
    sequence: int
    tensor: int
    pipeline: int
    every: int
    saves_to: str
    resumes: bool
    interval: int
    line: Callable[[int, float, float], str]
    saves: Saves = "folders"
    tag: str = "step_{step}"

    def prints(self, whole: World) -> bool:
        """Whether this process holds the worker that prints: the first of the last pipeline stage."""
        worker = whole.size // self.pipeline * (self.pipeline - 1)
        return whole.first <= worker < whole.first + whole.local


def _parser(texts: Sequence[str], integers: Mapping[str, int], flags: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"language model pre-training, {NOTICE}")
    for name in texts:
        parser.add_argument(f"--{name}", default="")
    for name, default in integers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("lr", "min_lr", "weight_decay", "beta1", "beta2"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    for name in flags:
        parser.add_argument(f"--{name}", action="store_true")
    return parser


_COMMON = {"batch_size": 8, "max_steps": 0, "steps_this_run": -1, "seed": 12349, "warmup_steps": 2000,
           "grad_accum_usteps": 64, "tensor_parallel_size": 2}  # fmt: skip
_ZERO1 = {"context_parallel_size": 1, "seq_len": 2048, "num_layers": -1, "logging_interval": 1, "kv_replicator": 1,
          "use_gpu_compatible_precision": 1, "checkpoint_freq": 100_000, "num_kept_checkpoint": -1, "hidden_size": -1,
          "use_flash_attention": 1, "fuse_qkv": 1, "transpose_nki_inputs": 1}  # fmt: skip
_ZERO1_FLAGS = ("print_grad_norm", "use_mix_precision", "use_zero_1", "sequence_parallel_enabled", "qkv_linear",
                "selective_checkpoint_enabled", "use_meta_device_init", "pretrained_weight")  # fmt: skip


def zero1(argv: Sequence[str], whole: World) -> Training:
    """tp_zero1_llama_hf_pretrain.py: tensor parallel with ZeRO-1."""
    texts = ("model_path", "data_dir", "output_dir", "metrics_file", "checkpoint_dir", "loading_step")
    asked = _parser(texts, {**_COMMON, **_ZERO1}, _ZERO1_FLAGS).parse_args(argv)
    return _with_log_lines(asked, whole, config=asked.model_path, every=asked.checkpoint_freq,
                           saves_to=asked.checkpoint_dir, resumes=asked.loading_step == "latest_if_exists",
                           sequence=asked.seq_len, interval=asked.logging_interval)  # fmt: skip


def neox(argv: Sequence[str], whole: World) -> Training:
    """tp_dp_gpt_neox_*_hf_pretrain.py: tensor parallel with ZeRO-1, one checkpoint at the very end."""
    texts = ("data_dir", "output_dir", "metrics_file")
    asked = _parser(texts, _COMMON, ("print_grad_norm", "resume_ckpt")).parse_args(argv)
    return _with_log_lines(asked, whole, config="", every=0, saves_to=asked.output_dir, resumes=False, sequence=2048,
                           interval=1, saves="at the end")  # fmt: skip


def _with_log_lines(
    asked: argparse.Namespace,
    whole: World,
    *,
    config: str,
    every: int,
    saves_to: str,
    resumes: bool,
    sequence: int,
    interval: int,
    saves: Saves = "folders",
) -> Training:
    replicas = whole.size // asked.tensor_parallel_size

    def line(step: int, loss: float, rate: float) -> str:
        peak = asked.lr * min(1.0, step / max(1, asked.warmup_steps))
        return (
            f"LOG {time.asctime()} - (0, {step}) step_loss : {loss:.4f} learning_rate : {peak:.2e} "
            f"throughput : {rate:.2f} seq/s "
        )

    return Training(
        config, asked.data_dir, asked.max_steps if asked.steps_this_run < 0 else asked.steps_this_run,
        asked.batch_size * asked.grad_accum_usteps * replicas, asked.grad_accum_usteps, sequence,
        asked.tensor_parallel_size, 1, max(0, every), saves_to, resumes, interval, line, saves,
    )  # fmt: skip


def pipelined(argv: Sequence[str], whole: World) -> Training:
    """run_llama_nxd.py: tensor and pipeline parallel. Its step lines count from 0."""
    texts = ("training_dir", "training_config", "tb_dir", "metrics_file", "checkpoint_dir", "loading_step")
    integers = {
        "num_microbatches": 8, "tensor_parallel_size": 8, "pipeline_parallel_size": 1, "train_batch_size": 16,
        "seq_len": 4096, "max_steps": 100, "checkpoint_freq": 100_000, "logging_interval": 1,
    }  # fmt: skip
    asked, _ = _parser(texts, integers, ()).parse_known_args(argv)
    replicas = whole.size // (asked.tensor_parallel_size * asked.pipeline_parallel_size)
    batch = asked.train_batch_size * replicas

    def line(step: int, loss: float, rate: float) -> str:
        return f"step {step - 1} step_time {batch / rate}s throughput {rate} seq/s loss {loss} grad norm 1.5"

    return Training(
        asked.training_config, asked.training_dir, asked.max_steps, batch, asked.num_microbatches, asked.seq_len,
        asked.tensor_parallel_size, asked.pipeline_parallel_size, max(0, asked.checkpoint_freq), asked.checkpoint_dir,
        asked.loading_step == "latest_if_exists", asked.logging_interval, line,
    )  # fmt: skip


def hydra(argv: Sequence[str], whole: World) -> Training:
    """training_orchestrator.py of NxD Training: what its configuration file would say and is not overridden here is
    not emulated, so every number must be given."""
    words = [word for word in argv if not word.startswith("--")]
    asked = dict(word.partition("=")[::2] for word in words)
    options = dict(word.partition("=")[::2] for word in argv if word.startswith("--"))
    if missing := {"--config-name", "--config-path"} - set(options):
        raise ScriptError(f"hydra: {', '.join(sorted(missing))} is missing")
    manager, strategy = "exp_manager.checkpoint_callback_params", "distributed_strategy"

    def number(name: str) -> int:
        if not asked.get(name, "").isdigit():
            raise ScriptError(f"hydra: {name} is {asked.get(name)!r}, and {NOTICE} without its configuration file")
        return int(asked[name])

    tensor, pipeline = (
        number(f"{strategy}.tensor_model_parallel_size"),
        number(f"{strategy}.pipeline_model_parallel_size"),
    )
    batch, micro = number("data.global_batch_size"), number("data.micro_batch_size")
    steps = number("trainer.max_steps")

    def line(step: int, loss: float, rate: float) -> str:
        return (
            f"Epoch 0:   0%|          | {step}/{steps} [00:10<1:00:00, {batch / rate:.2f}s/it, loss={loss:.2f}, "
            f"v_num=0, reduced_train_loss={loss:.3f}, global_step={step - 1:.1f}, consumed_samples={step * batch:.1f}]"
        )

    replicas = whole.size // (tensor * pipeline)
    return Training(
        asked.get("model.model_config", ""), asked.get("data.train_dir", ""), steps, batch, batch // (micro * replicas),
        8192, tensor, pipeline, number(f"{manager}.every_n_train_steps"), asked.get(f"{manager}.dirpath", ""),
        asked.get("exp_manager.resume_if_exists") == "false", 1, line,
        tag=f"{Path(options['--config-name']).stem}--step={{step}}-consumed_samples={{samples}}.ckpt",
    )  # fmt: skip


SCRIPTS: Mapping[str, Callable[[Sequence[str], World], Training]] = {
    "tp_zero1_llama_hf_pretrain.py": zero1,
    "run_llama_nxd.py": pipelined,
    "tp_dp_gpt_neox_20b_hf_pretrain.py": neox,
    "tp_dp_gpt_neox_6.9b_hf_pretrain.py": neox,
    "training_orchestrator.py": hydra,
}

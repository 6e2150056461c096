"""The command line of the public dp_bert_large_hf_pretrain_hdf5.py: the same names, the same defaults."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from trnctl.sandbox.neuron.emulation import NOTICE

_DATA = "~/examples_datasets/bert_pretrain_wikicorpus_tokenized_hdf5_seqlen128/"
_OPTIMIZERS = ("AdamW", "AdamW_FP32OptimParams", "LAMB")
_TEXTS = {"data_dir": _DATA, "output_dir": "./output", "metrics_file": "results.json", "resume_ckpt_path": None}
_INTEGERS = {
    "batch_size": 8,
    "max_steps": 28125,
    "steps_this_run": -1,  # -1: all of max_steps
    "shards_per_ckpt": 1,
    "seed": 12349,
    "seq_len": None,
    "max_pred_len": 20,
    "num_ckpts_to_keep": 1,  # -1: all
    "resume_step": -1,  # -1: the newest checkpoint
    "warmup_steps": 2000,
    "grad_accum_usteps": 64,
    "phase1_end_step": 28125,
}
_NUMBERS = {"lr": 4e-4, "expected_average_throughput": 0.0}
_FLAGS = ("debug", "resume_ckpt", "minimal_ckpt", "enable_pt_autocast", "phase2", "print_grad_norm")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line; `steps_this_run` comes out as a number of steps, never as -1."""
    parser = argparse.ArgumentParser(description=f"BERT-Large pre-training, {NOTICE}")
    parser.add_argument("--optimizer", choices=_OPTIMIZERS, default="AdamW_FP32OptimParams")
    for name, text in _TEXTS.items():
        parser.add_argument(f"--{name}", default=text)
    for name, integer in _INTEGERS.items():
        parser.add_argument(f"--{name}", type=int, default=integer)
    for name, number in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=float, default=number)
    for name in _FLAGS:
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args(argv)
    if options.steps_this_run < 0:
        options.steps_this_run = options.max_steps
    return options

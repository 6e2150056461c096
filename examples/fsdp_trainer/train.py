"""Train a Llama- or BERT-shaped model with plain PyTorch FSDP2, spread as parallel.json says.

    torchrun --nproc_per_node=4 train.py --parallel parallel.json --steps 100 --checkpoints ckpt --output out

The same command runs on a laptop and, in a batch script, on many nodes. `trnctl plan` writes parallel.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import checkpoint
import torch
import torch.distributed as dist
from data import Tokens
from model import Shape, loss_of
from offload import Offload
from parallel import build, gradients, mesh_of, start, sum_of_squares
from torch.distributed.tensor.parallel import loss_parallel


def read_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line; what parallel.json says is not asked for again."""
    add = (parser := argparse.ArgumentParser(description=__doc__.split("\n")[0])).add_argument
    add("--parallel", default="parallel.json", help="the layout, as trnctl plan compiles it")
    add("--steps", type=int, default=100, help="optimizer steps in all")
    add("--data", default="synthetic", help="a file of token numbers, or synthetic")
    add("--lr", type=float, default=3e-4)
    add("--warmup", type=int, default=0, help="steps in which the learning rate rises")
    add("--clip", type=float, default=1.0, help="the longest gradient that is used as it is")
    add("--checkpoints", default="", help="folder for checkpoints; without it none is written")
    add("--every", type=int, default=0, help="write a checkpoint after so many steps, and after the last")
    add("--keep", type=int, default=2, help="how many checkpoints stay")
    add("--resume", default="", help="a checkpoint, or newest: the newest in --checkpoints, if there is one")
    add("--weights", default="", help="start from a folder of Llama weights in Hugging Face's form")
    add("--export", default="", help="write such a folder at the end")
    add("--output", default="", help="folder for results.json")
    add("--device", default="auto", choices=("auto", "cuda", "neuron", "cpu"))
    add("--precision", choices=("fp32", "bf16"), help="of the computation; bf16, and fp32 on a CPU")
    return parser.parse_args(words)


def device_for(wanted: str) -> torch.device:
    """This rank's device. Neuron is experimental: nobody has run this script on one."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "neuron":
        import torch_neuronx  # noqa: F401  registers the device

        say("device: neuron is experimental: this script was written for it and never run on it")
    if wanted == "cpu":
        return torch.device("cpu")
    device = torch.device(wanted, int(os.environ.get("LOCAL_RANK", "0")))
    torch.get_device_module(device).set_device(device)
    return device


def say(text: str) -> None:
    """One line, from the first rank alone."""
    if int(os.environ.get("RANK", "0")) == 0:
        print(text, flush=True)


class Trainer:
    """One model on this process group: `run` takes the steps, `results` tells what came of them."""

    def __init__(self, layout: dict[str, Any], wishes: argparse.Namespace, device: torch.device) -> None:
        self.layout, self.wishes, self.device = layout, wishes, device
        self.precision = wishes.precision or ("fp32" if device.type == "cpu" else "bf16")
        if not layout["model"] or layout["model"]["family"] not in {"llama", "bert"}:
            raise SystemExit(f"this trainer knows the families llama and bert, not {layout['model']}")
        known = Shape.__dataclass_fields__
        self.shape = Shape(**{name: value for name, value in layout["model"].items() if name in known})
        if wishes.weights:
            self.shape = checkpoint.shape_from(Path(wishes.weights), self.shape)
        self.mesh = mesh_of(layout["mesh"], device)
        self.model = build(self.shape, layout, self.mesh, device, self.precision)
        activation = layout["activation"]
        self.offload = None
        if activation["offload"]:
            self.offload = Offload(self.model, self.model.model.layers, activation["horizon"], device)
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        others = [p for p in self.model.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        # One kernel for many parameters needs them on one mesh, and with tensor parallelism there are two.
        several = None if self.mesh["tensor"].size() == 1 else False
        self.optimizer = torch.optim.AdamW(groups, lr=wishes.lr, betas=(0.9, 0.95), foreach=several)
        self.progress = {"step": 0, "sequences": 0}
        self.data = Tokens(wishes.data, self.shape, layout["batch"]["sequence"], layout["seed"])
        self.history: list[dict[str, float]] = []
        self.asked = False  # this rank was told to save and leave
        self.leaving = False  # all ranks know it, and do so after the same step
        self.resumed = self.begin()

    def begin(self) -> str | None:
        """Weights or a checkpoint, where either is wished for; the name of the checkpoint."""
        if self.wishes.weights:
            checkpoint.take_weights(Path(self.wishes.weights), self.model)
        there = [Path(self.wishes.resume)] if self.wishes.resume else []
        if self.wishes.resume == "newest":
            there = checkpoint.whole(Path(self.wishes.checkpoints))
        if not there:
            return None
        self.progress = checkpoint.load(there[-1], self.model, self.optimizer)
        say(f"going on from {there[-1].name} at step {self.progress['step']}")
        return there[-1].name

    def step(self) -> tuple[float, float]:
        """One optimizer step; the loss over the global batch, and the gradient's norm before it was clipped."""
        batch, tensor = self.layout["batch"], self.mesh["tensor"].size()
        place = dist.get_rank() // tensor  # ranks with the same place see the same sequences
        first = self.progress["sequences"] + place * batch["micro"] * batch["accumulation"]
        total = torch.zeros((), device=self.device)
        for micro in range(batch["accumulation"]):
            self.model.set_requires_gradient_sync(micro == batch["accumulation"] - 1)
            inputs, labels = self.data.batch(first + micro * batch["micro"], batch["micro"])
            with loss_parallel() if tensor > 1 else nullcontext():
                loss = loss_of(self.model(inputs.to(self.device)), labels.to(self.device)) / batch["accumulation"]
                loss.backward()
            total += (loss.full_tensor() if tensor > 1 else loss).detach()
        # One message for all that the ranks must agree on: the gradient's norm, the loss, whether to stop.
        told = torch.stack([sum_of_squares(self.model), total, torch.tensor(float(self.asked), device=self.device)])
        dist.all_reduce(told)
        norm, loss = math.sqrt(told[0].item()), told[1].item() / dist.get_world_size()
        self.leaving = told[2].item() > 0
        self.update(min(1.0, self.wishes.clip / (norm + 1e-6)))
        self.progress["step"] += 1
        self.progress["sequences"] += batch["global"]
        return loss, norm

    @torch.no_grad()
    def update(self, factor: float) -> None:
        """Clip, choose the learning rate (a linear rise, then a cosine to a tenth), and move the parameters."""
        for part, _ in gradients(self.model):
            part.mul_(factor)
        step, warmup, last = self.progress["step"], self.wishes.warmup, max(self.wishes.steps, 1)
        fallen = 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, step / last)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.wishes.lr * min(fallen, (step + 1) / (warmup + 1))
        self.optimizer.step()
        self.optimizer.zero_grad()

    def run(self) -> None:
        """Step to the end, or until a signal asks to save and leave."""
        while self.progress["step"] < self.wishes.steps and not self.leaving:
            began = time.perf_counter()
            loss, norm = self.step()
            rate = self.layout["batch"]["global"] / (time.perf_counter() - began)
            step = self.progress["step"]
            self.history.append({"step": step, "loss": loss, "grad_norm": norm, "throughput": rate})
            say(f"step {step} loss {loss:.6f} grad_norm {norm:.6f} throughput {rate:.3f} seq/s")
            due = self.wishes.every and step % self.wishes.every == 0
            if self.wishes.checkpoints and (due or self.leaving or step == self.wishes.steps):
                folder = Path(self.wishes.checkpoints)
                there = checkpoint.save(folder, self.progress, self.model, self.optimizer, self.wishes.keep)
                say(f"saved {there.name}")
        if self.leaving:
            say(f"leaving at step {self.progress['step']}: a signal asked for it")

    def results(self) -> dict[str, Any]:
        """What happened, as results.json holds it; memory is only known of a GPU."""
        rates = [one["throughput"] for one in self.history[1:]]  # the first step warms up
        cuda = self.device.type == "cuda"
        return {
            "model": self.layout["model"],
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "mesh": self.layout["mesh"],
            "batch": self.layout["batch"],
            "device": torch.cuda.get_device_name(self.device) if cuda else self.device.type,
            "precision": self.precision,
            "torch": torch.__version__,
            "total_steps": self.wishes.steps,
            "steps_done": self.progress["step"],
            "sequences": self.progress["sequences"],
            "first_loss": self.history[0]["loss"] if self.history else None,
            "final_loss": self.history[-1]["loss"] if self.history else None,
            "average_throughput": sum(rates) / len(rates) if rates else None,
            "unit": "seq/s",
            "peak_memory_bytes": torch.cuda.max_memory_allocated(self.device) if cuda else None,
            "peak_resident_groups": self.offload.peak if self.offload else None,
            "resumed_from": self.resumed,
            "stopped_by_signal": self.leaving,
        }


def listen(trainer: Trainer) -> None:
    """Save and leave when TERM or USR1 comes, whichever rank gets it: after this step, or the next when that rank has
    told the others of this one already."""

    def note(*_: Any) -> None:
        trainer.asked = True

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGUSR1, note)


def main() -> None:
    """Join the others, train, and leave results.json."""
    wishes = read_arguments()
    layout = json.loads(Path(wishes.parallel).read_text())
    device = device_for(wishes.device)
    collectives = start(device, layout["collectives"], say)
    trainer = Trainer(layout, wishes, device)
    listen(trainer)
    say(f"training {layout['model']['name']} on {dist.get_world_size()} ranks of {device.type} over {collectives}")
    trainer.run()
    if wishes.export and not trainer.leaving:
        checkpoint.give_weights(Path(wishes.export), trainer.shape, trainer.model)
    if wishes.output and dist.get_rank() == 0:
        Path(wishes.output).mkdir(parents=True, exist_ok=True)
        text = json.dumps(trainer.results() | {"collectives": collectives}, indent=2) + "\n"
        (Path(wishes.output) / "results.json").write_text(text)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Runs cases of the reference trainer on this machine's CPU: `worker.py FOLDER CASES`, JSON in, FOLDER/NAME.json out.

PyTorch is imported once; every world of ranks is forked from here and takes all its cases in one process group. A case
is {name, world, layout, wishes, take}: `layout` is a parallel.json, `wishes` the words of train.py's command line, and
`take` the steps to take now (else all).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
from itertools import groupby
from pathlib import Path
from typing import Any

TRAINER = Path(__file__).parents[2] / "examples" / "fsdp_trainer"
sys.path.insert(0, str(TRAINER))

import checkpoint  # noqa: E402
import parallel  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import train  # noqa: E402
from data import Tokens  # noqa: E402
from model import Shape, Transformer, loss_of  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

LONGEST = 400  # seconds a world may take, on a machine that has other things to do
Case = dict[str, Any]


def main(folder: Path, cases: list[Case]) -> int:
    """Every world after the other, in the order of the cases."""
    code = 0
    for (world, dies), of_world in groupby(cases, key=lambda case: (int(case["world"]), "dies_in_save" in case)):
        ended = fork_world(folder, world, list(of_world))
        code |= int(ended != int(dies))
    return code


def fork_world(folder: Path, world: int, cases: list[Case]) -> int:
    """Fork the ranks and wait for them; not 0 when one failed, after which the others are ended."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ranks = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            os._exit(as_rank(folder, rank, world, port, cases))
        ranks.append(pid)
    codes = []
    while ranks:
        pid, status = os.wait()
        ranks.remove(pid)
        codes.append(status)
        if status:
            for other in ranks:
                os.kill(other, signal.SIGKILL)
    return int(any(codes))


def as_rank(folder: Path, rank: int, world: int, port: int, cases: list[Case]) -> int:
    """One rank's whole life."""
    signal.alarm(LONGEST)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        torch.set_num_threads(1)
        said: list[str] = []
        parallel.start(torch.device("cpu"), cases[0]["layout"]["collectives"], said.append)
        for case in cases:
            began = time.perf_counter()
            told = OPERATIONS[case.get("operation", "train")](case)
            if rank == 0:
                told |= {"seconds": time.perf_counter() - began, "said": said}
                (folder / f"{case['name']}.json").write_text(json.dumps(told))
        dist.destroy_process_group()
    except BaseException:  # noqa: BLE001  told to the parent by the code, to a person by the traceback
        traceback.print_exc()
        return 1
    return 0


def trained(case: Case) -> Case:
    """Some steps of the trainer."""
    trainer = train.Trainer(case["layout"], train.read_arguments(case["wishes"]), torch.device("cpu"))
    resident: list[int] = []
    if trainer.offload is not None:
        note_resident(trainer.offload, resident)
    if "signal_at" in case and dist.get_rank() == dist.get_world_size() - 1:
        raise_signal_at(trainer, case["signal_at"], case.get("signal_in", "step"))
    if "dies_in_save" in case and dist.get_rank() == dist.get_world_size() - 1:
        die_in_save(case["dies_in_save"])
    trainer.run()
    if trainer.wishes.export:
        checkpoint.give_weights(Path(trainer.wishes.export), trainer.shape, trainer.model)
    return {"history": trainer.history, "results": trainer.results(), "resident": resident}


def note_resident(offload: Any, resident: list[int]) -> None:
    """Count the groups whose device copies are there at each unpacking, by the copies and not by the book."""
    unpack = offload.unpack

    def counted(saved: Any) -> Any:
        value = unpack(saved)
        groups = [g for g, parked in offload.parked.items() if any(one.device is not None for one in parked)]
        resident.append(len(groups))
        return value

    offload.hooks.unpack_hook = counted


def raise_signal_at(trainer: Any, step: int, method: str) -> None:
    """This rank alone is told to leave, while it takes that step: when it begins that method."""
    take = getattr(trainer, method)

    def told(*words: Any) -> Any:
        if trainer.progress["step"] + 1 == step:
            os.kill(os.getpid(), signal.SIGUSR1)
        return take(*words)

    train.listen(trainer)
    setattr(trainer, method, told)


def die_in_save(number: int) -> None:
    """This rank's process ends in the midst of that checkpoint."""
    save, count = checkpoint.dcp.save, 0

    def deadly(*state: Any, **where: Any) -> None:
        nonlocal count
        count += 1
        if count == number:
            where["checkpoint_id"].mkdir(parents=True, exist_ok=True)
            (where["checkpoint_id"] / "__1_0.distcp").write_bytes(b"half")
            os._exit(1)
        save(*state, **where)

    checkpoint.dcp.save = deadly


def plain(case: Case) -> Case:
    """The same training without the trainer: one process, no wrapper, the whole global batch in one pass."""
    layout, wishes = case["layout"], train.read_arguments(case["wishes"])
    shape, batch = Shape(**{k: v for k, v in layout["model"].items() if k != "name"}), layout["batch"]
    model = Transformer(shape)
    parallel.initialise(model, layout["seed"])
    for file in Path(wishes.weights).glob("*.safetensors") if wishes.weights else ():
        model.load_state_dict(load_file(file), strict=True)
    kinds = [[p for p in model.parameters() if (p.ndim > 1) is matrix] for matrix in (True, False)]
    groups = [{"params": kinds[0], "weight_decay": 0.1}, {"params": kinds[1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=wishes.lr, betas=(0.9, 0.95))
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, wishes.steps, eta_min=0.1 * wishes.lr)
    data = Tokens(wishes.data, shape, batch["sequence"], layout["seed"])
    history = []
    for step in range(wishes.steps):
        inputs, labels = data.batch(step * batch["global"], batch["global"])
        loss = loss_of(model(inputs), labels)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), wishes.clip)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
        history.append({"step": step + 1, "loss": loss.item(), "grad_norm": norm.item()})
    return {"history": history}


def rows(case: Case) -> Case:
    """What the data set gives for the third and fourth sequence."""
    layout, wishes = case["layout"], train.read_arguments(case["wishes"])
    shape = Shape(**{k: v for k, v in layout["model"].items() if k != "name"})
    inputs, labels = Tokens(wishes.data, shape, layout["batch"]["sequence"], layout["seed"]).batch(2, 2)
    return {"inputs": inputs.tolist(), "labels": labels.tolist()}


def scores(case: Case) -> Case:
    """What the model makes of some tokens, with weights of another library's making."""
    layout, folder = case["layout"], Path(case["weights"])
    shape = Shape(**{k: v for k, v in layout["model"].items() if k != "name"})
    shape = checkpoint.shape_from(folder, shape)
    mesh = parallel.mesh_of(layout["mesh"], torch.device("cpu"))
    model = parallel.build(shape, layout, mesh, torch.device("cpu"), "fp32")
    checkpoint.take_weights(folder, model)
    with torch.no_grad():
        found = model(torch.tensor([case["tokens"]]))
    return {"scores": getattr(found, "full_tensor", lambda: found)()[0].tolist()}


OPERATIONS = {"rows": rows, "scores": scores, "train": trained, "plain": plain}

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())))

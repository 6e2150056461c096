"""A cluster folder with the emulated Neuron tools in it, for tests: no Slurm, every tool a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from trnctl.sandbox.neuron.install import install, install_source

SECONDS = 30.0  # no tool under test may take longer
SCRIPT = "dp_bert_large_hf_pretrain_hdf5.py"
_TYPES = {
    "small-dy-i1": "trn1.2xlarge",
    "q-dy-i1": "trn1.32xlarge",
    "n-dy-i1": "trn1n.32xlarge",
    "two-dy-i1": "trn2.48xlarge",
}


class NeuronCluster:
    """clusters/u below a test's own folder; `emulate` changes what its tools obey."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "clusters" / "u"
        self.bin = self.folder / "bin"
        self.shared = self.folder / "root" / "fsx"
        self.output = self.shared / "output"
        self.cache = self.shared / "cache"
        self.shared.mkdir(parents=True)
        install(self.bin, self.folder)
        self.emulate()

    def emulate(self, **changes: object) -> None:
        """Write emulation.json: quick steps and compilations, and `changes`."""
        content: dict[str, object] = {"steps": 6, "step_seconds": 0.01, "compile_seconds": 0.05, "steps_per_shard": 4}
        content |= {"instance_types": _TYPES, "faults": []} | changes
        (self.folder / "emulation.json").write_text(json.dumps(content), encoding="utf-8")

    def environment(self, node: str, **variables: str) -> dict[str, str]:
        """What a task of Slurm on this node would see; nothing of Neuron or torch comes from outside."""
        inherited = {"HOME": str(self.folder), "USER": "trn", "LC_ALL": "C.UTF-8"}
        path = {"PATH": f"{self.bin}:{os.environ['PATH']}", "SLURMD_NODENAME": node}
        return {**inherited, **path, "NEURON_COMPILE_CACHE_URL": str(self.cache), **variables}

    def start(self, *words: str, node: str = "q-dy-i1-1", **variables: str) -> subprocess.Popen[str]:
        """Start a tool; its stdout and stderr are pipes. The caller ends it."""
        return subprocess.Popen(
            list(words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(node, **variables),
            cwd=self.folder,
        )

    def run(self, *words: str, node: str = "q-dy-i1-1", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end."""
        with self.start(*words, node=node, **variables) as tool:
            try:
                stdout, stderr = tool.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                tool.kill()
                raise
        return subprocess.CompletedProcess(words, tool.returncode, stdout, stderr)

    def place_source(self) -> Path:
        """Put the stand-ins and the data where the shipped recipes expect them; the BERT script."""
        install_source(self.folder / "root", "/fsx")
        (script,) = self.shared.rglob(SCRIPT)
        return script

    def bert(self, *more: str, node: int = 0, nodes: int = 1) -> list[str]:
        """A command that trains BERT with the bert-large recipe's arguments."""
        script = next(self.shared.rglob(SCRIPT), None) or self.place_source()
        data = next((self.shared / "trnctl" / "data").iterdir())
        arguments = {
            "data_dir": f"{data}/",
            "output_dir": str(self.output),
            "batch_size": "16",
            "grad_accum_usteps": str(32 // nodes),
            "max_steps": "28125",
            "seq_len": "128",
        }
        launch = ["--nproc_per_node=32", f"--nnodes={nodes}", f"--node_rank={node}"]
        words = [word for name, value in arguments.items() for word in (f"--{name}", value)]
        return ["torchrun", *launch, "--master_addr=127.0.0.1", "--master_port=2022", str(script), *words, *more]

    def entries(self) -> list[Path]:
        """The MODULE_ folders of the compile cache."""
        return sorted(self.cache.glob("neuronxcc-*/MODULE_*"))

    def json(self, *words: str, **variables: str) -> Any:
        """What a tool prints, as JSON; it must end with 0."""
        done = self.run(*words, **variables)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

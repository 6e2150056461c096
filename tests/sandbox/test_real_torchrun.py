"""torchrun on an emulated CPU node: the real one, which finds the other nodes on loopback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.neuron_cluster import NeuronCluster
from trnctl.sandbox.neuron.real_torchrun import runs_here

SCRIPT = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
mine = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(mine)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {mine.item():g}", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("instance_type", "here"),
    [("c5.xlarge", True), ("m5.2xlarge", True), ("p4d.24xlarge", False), ("trn1.32xlarge", False), ("", False)],
)
def test_only_cpu_nodes_can_be_real(instance_type: str, here: bool) -> None:
    assert runs_here(instance_type) is here


@pytest.fixture
def cluster(tmp_path: Path) -> NeuronCluster:
    cluster = NeuronCluster(tmp_path)
    cluster.emulate(instance_types={"small-dy-c5": "c5.xlarge"})
    (cluster.folder / "sum.py").write_text(SCRIPT, encoding="utf-8")
    return cluster


def test_two_nodes_of_two_ranks_each_sum_over_all(cluster: NeuronCluster) -> None:
    def start(rank: int) -> subprocess.Popen[str]:
        words = ["--nproc_per_node=2", "--nnodes=2", f"--node_rank={rank}", "--master_addr=127.0.0.1", "sum.py"]
        return cluster.start("torchrun", *words, node=f"small-dy-c5-{rank + 1}", SLURM_JOB_ID="7")

    said = ""
    for node in [start(1), start(0)]:  # the second comes first, and waits
        out, err = node.communicate(timeout=120)
        assert node.returncode == 0, err
        said += out
        assert "the real one" in err
    # Two ranks may write their lines at the same moment, and the ends of the lines after both.
    assert sorted(re.findall(r"rank \d of \d: \d+", said)) == [f"rank {rank} of 4: 10" for rank in range(4)]


def test_without_pytorch_it_says_what_to_install(cluster: NeuronCluster) -> None:
    """By a Python that has no torchrun beside it, with none on PATH."""
    (cluster.folder / "without.py").write_text(
        "import sys\n"
        "from trnctl.sandbox.neuron import torchrun\n"
        "sys.executable = '/nonexistent/python'\n"
        "sys.exit(torchrun.main(sys.argv[1:]))\n"
    )
    words = [sys.executable, str(cluster.folder / "without.py"), "--nproc_per_node=2", "sum.py"]
    environment = {"PATH": "/usr/bin:/bin", "TRNCTL_SANDBOX_CLUSTER": str(cluster.folder)}
    done = cluster.run(*words, node="small-dy-c5-1", **environment)
    assert done.returncode == 69
    assert "pip install 'trnctl[trainer]'" in done.stderr

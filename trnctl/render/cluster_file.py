"""A commented `trnctl.yaml` from the answers to a few questions."""

from __future__ import annotations

from dataclasses import dataclass

from trnctl.render.engine import render
from trnctl.specs import sdk
from trnctl.specs.cluster import HeadNode, Pcluster


@dataclass(frozen=True)
class Draft:
    """What `trnctl init` has found out. `reservation` is a `cr-…` or '' (on demand), of a capacity block when `block`;
    `key_name`, `ssh_key` and `bucket` may be ''; `ssh_from` may be empty where `ssm` is set."""

    name: str
    region: str
    instance_type: str
    max_count: int
    head_subnet: str
    compute_subnet: str
    key_name: str = ""
    ssh_key: str = ""
    ssh_from: tuple[str, ...] = ()
    ssm: bool = False
    reservation: str = ""
    block: bool = False
    bucket: str = ""
    head_type: str = HeadNode.instance_type
    os: str = sdk.PROVEN_OS
    neuron_sdk: str = sdk.DEFAULT
    pcluster_version: str = Pcluster.version

    @property
    def min_count(self) -> int:
        """A capacity block is paid for in whole: ParallelCluster wants all its nodes on."""
        return self.max_count if self.block else 0


def cluster_file(draft: Draft) -> str:
    """The text of the file, comments included."""
    return render("yaml", "init/trnctl.yaml.j2", {"draft": draft})

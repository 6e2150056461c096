"""The head node of a cluster, as those need it who ask or tell it something."""

from __future__ import annotations

from trnctl.errors import NotFoundError, RefusedError
from trnctl.ports import Instance, Services


def head_of(cluster: str, services: Services, *, work: bool = False) -> Instance:
    """The running head node. NotFoundError when there is no cluster, RefusedError when it has none that runs, or when
    it is to be given `work` while the cluster is being deleted."""
    seen = services.cloud.observe(cluster)
    if seen.stack is None:
        raise NotFoundError(
            f"there is no cluster {cluster}", remedy="trnctl cluster create makes it; trnctl cluster list shows others"
        )
    head = seen.head
    if head is None or head.state != "running":
        raise RefusedError(
            f"{cluster} is {seen.stack.phase} and its head node is {head.state if head else 'not there'}",
            remedy="wait until trnctl status says that it runs",
        )
    if work and seen.stack.phase == "deleting":
        raise RefusedError(
            f"{cluster} is being deleted, and takes no more work",
            remedy="trnctl cluster create makes it anew once it is gone: trnctl status shows whether it is",
        )
    return head

"""Put the node scripts where the nodes will look for them."""

from __future__ import annotations

from trnctl.ports import Cloud
from trnctl.render.node import node_documents
from trnctl.specs.cluster import ClusterSpec


def put_node_software(spec: ClusterSpec, cloud: Cloud) -> None:
    """Write the node scripts into the cluster's bucket; can be run again. Nothing where there are none.

    To be done before ParallelCluster is asked, which looks whether the scripts that its document names are there.
    """
    documents = node_documents(spec)
    if spec.bucket is not None and documents:
        cloud.put_objects(spec.bucket, {document.name: document.text for document in documents})

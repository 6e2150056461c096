"""Records of the runs of a study, as the head node and the results script write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.recipes import recipe
from trnctl.actions.submit import Facts, Wishes, plan_submit
from trnctl.ports import QueuePicture, RunRecord
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.loading import load_cluster_file
from trnctl.specs.study import Study
from trnctl.specs.workload import Scaling

EXAMPLE = Path(__file__).parents[1] / "examples" / "trn1-16-nodes.yaml"
NOW = datetime(2026, 11, 29, 9, 0, tzinfo=UTC)
NOTICE = "sandbox: AWS and the Neuron tools are emulated"


def cluster() -> ClusterSpec:
    """The shipped example: one queue of at most 16 nodes."""
    return load_cluster_file(EXAMPLE.read_text(), str(EXAMPLE)).cluster


def record(
    nodes: int,
    rate: float | None,
    *,
    study: Study | None = None,
    scaling: Scaling = "strong",
    run: str = "",
    exit_code: int | None = 0,
    notice: str = "",
    steps_done: int = 20,
    curve: Sequence[Sequence[float | None]] = (),
    **changed: Any,
) -> RunRecord:
    """A run that submit would have made, and that then ran at `rate`; `exit_code` None lives, `changed` are other
    words of run.json."""
    name = run or (study.run(nodes) if study else f"bert-large-1129-{nodes:03d}")
    wishes = Wishes(nodes=nodes, scaling=study.scaling if study else scaling, study=study)
    plan = plan_submit(recipe(), cluster(), wishes, run=name, now=NOW, facts=Facts("", notice))
    manifest: dict[str, Any] = json.loads(next(f.text for f in plan.submission.files if f.name == "run.json"))
    results: Mapping[str, object] | None = None
    if rate is not None:
        results = {
            "average_throughput": rate, "steps_done": steps_done, "final_loss": 9.5, "time_to_train_s": 90.0,
            "emulated": notice or None, "curve": [list(point) for point in curve],
        }  # fmt: skip
    ended: dict[str, Mapping[str, object]] = {}
    if exit_code is not None:
        ended = {"compile": {"exit_code": 0}, "train": {"exit_code": exit_code}}
    folder = plan.submission.folder
    return RunRecord(name, folder, {**manifest, **changed}, {"compile": "1", "train": "2"}, results, {}, ended)


def picture(*records: RunRecord) -> QueuePicture:
    """A look at the head node that finds these runs and an empty queue."""
    return QueuePicture(NOW, (), (), records)

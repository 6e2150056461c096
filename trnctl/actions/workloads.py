"""The catalogue: what a recipe will run, on what, and what is doubtful; and new recipes, begun as a copy of one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from trnctl.errors import UsageError
from trnctl.findings import Finding
from trnctl.plan.arguments import Filled, fill_in
from trnctl.plan.layout import Layout, legal_nodes, numbers
from trnctl.plan.outlook import Outlook, outlook
from trnctl.plan.proposal import propose
from trnctl.plan.risk import Risk, work_at_risk
from trnctl.plan.software import software_findings
from trnctl.render.places import code_folder
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.workload import WorkloadSpec
from trnctl.specs.workload_loading import load_workload

_MOST_NODES = 64  # of those that are listed as legal
_FOLDER, _MOUNT = "RUN", "MOUNT"  # stand for what only a submit knows


@dataclass(frozen=True)
class Description:
    """A recipe on its own number of nodes of its first type. `legal` are node counts that divide its batch; `filled` is
    None for a recipe that is only planned; `findings` are about the cluster's software, where there is a cluster."""

    recipe: WorkloadSpec
    instance_type: str
    outlook: Outlook
    legal: tuple[int, ...]
    risk: Risk
    filled: Filled | None
    findings: tuple[Finding, ...]
    cluster: ClusterSpec | None

    @property
    def queues(self) -> tuple[str, ...]:
        """The cluster's queues whose nodes the script runs on."""
        types = self.recipe.ranks_per_node.keys()
        queues = self.cluster.queues if self.cluster is not None else ()
        return tuple(q.name for q in queues if any(one.instance_type in types for one in q.compute_resources))

    @property
    def layout(self) -> Layout:
        """How it is spread over its own nodes."""
        return numbers(self.outlook.proposal)

    def as_json(self) -> dict[str, object]:
        """The recipe's own keys, and beside them what follows from them."""
        filled = self.filled
        return {
            **asdict(self.recipe),
            "instance_type": self.instance_type,
            "layout": asdict(self.layout),
            "legal_nodes": list(self.legal),
            "command": ["torchrun", self.recipe.script, *filled.training] if filled else [],
            "filled_environment": dict(filled.environment) if filled else {},
            "at_risk": {**asdict(self.risk), "words": self.risk.words()},
            "queues": list(self.queues),
            "findings": [finding.as_json() for finding in self.findings],
        }


def describe(recipe: WorkloadSpec, cluster: ClusterSpec | None = None) -> Description:
    """What there is to know about a recipe before it runs anywhere."""
    from trnctl.actions.plan import USUAL_TYPE

    instance_type = next(iter(recipe.ranks_per_node), USUAL_TYPE)
    seen = outlook(propose(recipe, instance_type, recipe.nodes))
    filled = None
    if not recipe.plan_only:
        source = code_folder(_MOUNT, recipe.source)
        filled = fill_in(recipe, seen.layout, folder=_FOLDER, mount=_MOUNT, arguments={}, environment={}, source=source)
    return Description(
        recipe=recipe,
        instance_type=instance_type,
        outlook=seen,
        legal=legal_nodes(recipe, instance_type, _MOST_NODES),
        risk=work_at_risk(
            recipe,
            step_seconds=seen.pace.step_seconds if seen.pace else None,
            ground=seen.pace.ground if seen.pace else "",
        ),
        filled=filled,
        findings=tuple(software_findings(cluster, recipe)) if cluster is not None else (),
        cluster=cluster,
    )


def new_recipe(name: str, text: str, source: str) -> str:
    """A recipe of the user's own from the text of one that works, under another name; its comments stay. UsageError
    for a name that no recipe can have."""
    renamed, count = re.subn(r"(?m)^name:.*$", f"name: {name}", text, count=1)
    head = (
        f"# A recipe of your own, begun as a copy of {source}. `trnctl workloads show FILE` reads it and tells\n"
        "# every mistake with its line, and `trnctl submit FILE --dry-run` prints what would run.\n#\n"
    )
    made = head + renamed
    if count != 1:
        raise UsageError(
            f"{source} has no line that begins with name:", remedy="write its name as `name: …` on a line of its own"
        )
    load_workload(made, f"{name}.yaml")
    return made


def catalogue(recipes: Sequence[WorkloadSpec], own: Sequence[str] = ()) -> list[dict[str, object]]:
    """The list as JSON: what can be submitted, on what, and why not where not. `own` names the user's."""
    return [
        {
            "name": one.name,
            "title": one.title,
            "nodes": one.nodes,
            "instance_types": list(one.ranks_per_node),
            "stack": one.stack,
            "plan_only": one.plan_only,
            "experimental": one.experimental,
            "own": one.name in own,
        }
        for one in recipes
    ]

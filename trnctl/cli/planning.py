"""From the command line's words to a submit plan and the cluster it is for; shared by what plans like `submit`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from trnctl.actions.runs import OpenCluster
    from trnctl.actions.study import StudyPlan
    from trnctl.actions.submit import SubmitPlan, Wishes
    from trnctl.cli.session import Session
    from trnctl.specs.cluster import ClusterSpec


@dataclass(frozen=True)
class Ready:
    """A plan, and the cluster to carry it out on."""

    plan: SubmitPlan
    opened: OpenCluster


def prepare(session: Session, workload: str, wishes: Wishes, *, ask: bool = True) -> Ready:
    """The plan of a submit; nothing is asked of the cluster yet, and of AWS only when capacity blocks end, where the
    file names any, and with `ask`."""
    from trnctl.actions.status import blocks_of
    from trnctl.actions.submit import Facts, plan_submit, run_name
    from trnctl.cli.files import read_workload

    file = session.file()
    recipe = read_workload(workload, file)
    opened = session.open()
    now = datetime.now(UTC)
    blocks = blocks_of(file.cluster) if ask else ()
    ends = opened.services.cloud.block_ends(blocks) if blocks else {}
    facts = Facts(opened.services.mount_prefix, opened.services.notice, ends)
    run = wishes.name or run_name(recipe.name, now)
    return Ready(plan_submit(recipe, file.cluster, wishes, run=run, now=now, facts=facts), opened)


def prepare_study(
    session: Session,
    workload: str,
    wishes: Wishes,
    *,
    scaling: Literal["strong", "weak"],
    nodes: tuple[int, ...],
    name: str | None,
) -> tuple[StudyPlan, OpenCluster, ClusterSpec]:
    """The plan of a study with every point judged; nothing is asked of AWS or of the cluster yet."""
    from trnctl.actions.study import plan_study
    from trnctl.actions.submit import Facts
    from trnctl.cli.files import read_workload
    from trnctl.specs.study import Study, study_name

    file = session.file()
    recipe = read_workload(workload, file)
    opened = session.open()
    facts = Facts(opened.services.mount_prefix, opened.services.notice)
    study = Study(name or study_name(recipe.name, scaling), scaling, nodes)
    plan = plan_study(recipe, file.cluster, study, wishes, now=datetime.now(UTC), facts=facts)
    return plan, opened, file.cluster

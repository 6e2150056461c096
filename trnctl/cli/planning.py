"""From the command line's words to a submit plan and the cluster it is for; shared by what plans like `submit`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnctl.actions.runs import OpenCluster
    from trnctl.actions.submit import SubmitPlan, Wishes
    from trnctl.cli.session import Session


@dataclass(frozen=True)
class Ready:
    """A plan, and the cluster to carry it out on."""

    plan: SubmitPlan
    opened: OpenCluster


def prepare(session: Session, workload: str, wishes: Wishes) -> Ready:
    """The plan of a submit; nothing is asked of AWS or of the cluster yet."""
    from trnctl.actions.submit import Facts, plan_submit, run_name
    from trnctl.cli.files import read_workload

    file = session.file()
    recipe = read_workload(workload, file)
    opened = session.open()
    now = datetime.now(UTC)
    facts = Facts(opened.services.mount_prefix, opened.services.notice)
    run = wishes.name or run_name(recipe.name, now)
    return Ready(plan_submit(recipe, file.cluster, wishes, run=run, now=now, facts=facts), opened)

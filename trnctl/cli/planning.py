"""From the command line's words to a submit plan and the doors; shared by `submit` and what plans like it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnctl.actions.submit import SubmitPlan, Wishes
    from trnctl.cli.session import Session
    from trnctl.ports import Services


def prepare(session: Session, workload: str, wishes: Wishes) -> tuple[SubmitPlan, Services]:
    """The plan of a submit, and the doors to carry it out; nothing is asked of AWS or of the cluster yet."""
    from trnctl.actions.submit import Facts, plan_submit, run_name
    from trnctl.cli.files import read_workload

    file = session.file()
    recipe = read_workload(workload, file)
    spec = file.cluster
    services = session.services(spec.region, spec.name, spec)
    now = datetime.now(UTC)
    plan = plan_submit(
        recipe,
        spec,
        wishes,
        run=wishes.name or run_name(recipe.name, now),
        now=now,
        facts=Facts(services.mount_prefix, services.notice),
    )
    return plan, services

"""From the command line's words to a submit plan and the cluster it is for; shared by what plans like `submit`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from trnctl.actions.code import Brought
    from trnctl.actions.runs import OpenCluster
    from trnctl.actions.study import StudyPlan
    from trnctl.actions.submit import SubmitPlan, Wishes
    from trnctl.cli.session import Session
    from trnctl.plan.code import Code
    from trnctl.specs.cluster import ClusterFile, ClusterSpec
    from trnctl.specs.workload import WorkloadSpec


@dataclass(frozen=True)
class OwnCode:
    """The user's own code of a recipe with `workdir`, and where this state of it lies on shared storage."""

    code: Code
    path: str

    def bring(self, opened: OpenCluster) -> Brought:
        """Put it there, if it is not."""
        from trnctl.actions import code

        return code.bring(self.code, self.path, opened)


def bring(code: OwnCode | None, opened: OpenCluster) -> Brought | None:
    """Put the user's own code where runs expect it; None where there is none."""
    return None if code is None else code.bring(opened)


@dataclass(frozen=True)
class Ready:
    """A plan, the cluster to carry it out on, and the user's own code that it needs."""

    plan: SubmitPlan
    opened: OpenCluster
    code: OwnCode | None = None


def read_pinned(name: str, file: ClusterFile, mount_prefix: str) -> tuple[WorkloadSpec, OwnCode | None]:
    """A recipe; one with code of the user's own is pinned to the state that the code is in now."""
    from trnctl.cli.files import read_workload, recipe_path
    from trnctl.cli.workdir import read_code, workdir_of
    from trnctl.plan.code import pinned
    from trnctl.render.places import code_folder

    recipe = read_workload(name, file)
    if not recipe.workdir:
        return recipe, None
    code = read_code(workdir_of(recipe, recipe_path(name, file)))
    recipe = pinned(recipe, code)
    return recipe, OwnCode(code, code_folder(f"{mount_prefix}{file.cluster.shared_mount}", recipe.source))


def code_to_sync(session: Session, what: str) -> tuple[Code, str, OpenCluster]:
    """The code that is meant by a recipe or a folder, the folder on shared storage that follows it, and the cluster."""
    from trnctl.cli.files import read_workload, recipe_path
    from trnctl.cli.workdir import origin_of, read_code, workdir_of
    from trnctl.errors import UsageError
    from trnctl.render.places import live_code_folder

    file = session.file()
    folder, name = what, Path(what).resolve().name
    if not Path(what).is_dir():
        recipe = read_workload(what, file)
        if not recipe.workdir:
            raise UsageError(
                f"{recipe.name} has no code of yours: it comes from {recipe.source.repository or 'trnctl itself'}",
                remedy="name a folder, or a recipe with workdir; submit brings all other code by itself",
            )
        folder, name = workdir_of(recipe, recipe_path(what, file)), recipe.name
    opened = session.open()
    mount = f"{opened.services.mount_prefix}{file.cluster.shared_mount}"
    return read_code(folder), live_code_folder(mount, name, origin_of(folder)), opened


def prepare(session: Session, workload: str, wishes: Wishes, *, ask: bool = True) -> Ready:
    """The plan of a submit; nothing is asked of the cluster yet, and of AWS only when capacity blocks end, where the
    file names any, and with `ask`."""
    from trnctl.actions.status import blocks_of
    from trnctl.actions.submit import Facts, plan_submit, run_name
    from trnctl.cli.files import read_workloads

    file = session.file()
    opened = session.open()
    recipe, code = read_pinned(workload, file, opened.services.mount_prefix)
    now = datetime.now(UTC)
    blocks = blocks_of(file.cluster) if ask else ()
    ends = opened.services.cloud.block_ends(blocks) if blocks else {}
    facts = Facts(opened.services.mount_prefix, opened.services.notice, ends, lambda: read_workloads(file))
    run = wishes.name or run_name(recipe.name, now)
    return Ready(plan_submit(recipe, file.cluster, wishes, run=run, now=now, facts=facts), opened, code)


class Prepared(NamedTuple):
    """A study's plan, the cluster to carry it out on and as its file has it, and the user's own code that it needs."""

    plan: StudyPlan
    opened: OpenCluster
    spec: ClusterSpec
    code: OwnCode | None


def prepare_study(
    session: Session,
    workload: str,
    wishes: Wishes,
    *,
    scaling: Literal["strong", "weak"],
    nodes: tuple[int, ...],
    name: str | None,
) -> Prepared:
    """The plan of a study with every point judged; nothing is asked of AWS or of the cluster yet."""
    from trnctl.actions.study import plan_study
    from trnctl.actions.submit import Facts
    from trnctl.cli.files import read_workloads
    from trnctl.specs.study import Study, study_name

    file = session.file()
    opened = session.open()
    recipe, code = read_pinned(workload, file, opened.services.mount_prefix)
    facts = Facts(opened.services.mount_prefix, opened.services.notice, recipes=lambda: read_workloads(file))
    study = Study(name or study_name(recipe.name, scaling), scaling, nodes)
    plan = plan_study(recipe, file.cluster, study, wishes, now=datetime.now(UTC), facts=facts)
    return Prepared(plan, opened, file.cluster, code)

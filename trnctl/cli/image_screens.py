"""What `trnctl image …` shows and asks, from the plan with its price to the AMI in the cluster file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen, finding_line
from trnctl.cli.progress import follow
from trnctl.cli.session import Session
from trnctl.cli.words import duration, money
from trnctl.errors import ToolError

if TYPE_CHECKING:
    from trnctl.actions.image import ImagePlan, ImageStep, ImageWish, ListedImage
    from trnctl.findings import Finding
    from trnctl.ports import Services


def build(screen: Screen, session: Session, wish: ImageWish, *, dry: bool, yes: bool) -> None:
    """The whole command."""
    from trnctl.actions.image import build_image, leftover_stack, plan_image

    spec = session.spec()
    services = session.services(spec.region, spec.name, spec)
    plan = plan_image(spec, wish, services)
    build_plan(screen, plan, services.notice)
    if dry:
        _dry(screen, plan)
        return
    if plan.asks:
        screen.confirm("Build it?", yes=yes)
    again = f"trnctl image list shows it; trnctl image build{f' --name {wish.name}' if wish.name else ''} takes it up"
    last = follow(screen, build_image(plan, services), step_words, again, lambda step: step.image and step.image.state)
    if last is None or last.image is None:
        raise ToolError(f"the image {plan.name} is gone", remedy="run this command again")
    _built(screen, session, plan, last.image.ami, leftover_stack(plan.name, spec.region, services))


def build_plan(screen: Screen, plan: ImagePlan, notice: str) -> None:
    """What is built from what, and what that costs before anything is spent."""
    spec = plan.spec
    screen.notice(notice)
    screen.say(
        f"{plan.name} in {spec.region} — ParallelCluster {spec.pcluster.version}, {spec.os}, Neuron {spec.neuron_sdk}"
    )
    screen.say()
    if plan.parent is not None:
        screen.field("from", f"{plan.parent.id}   {plan.parent.name}", indent="  ")
        said = f"{money(plan.hour_usd)} an hour while it builds" if plan.hour_usd is not None else "price not known"
        screen.field("on", f"1 × {plan.instance_type}   {said}", indent="  ")
        if plan.price_source:
            screen.field("", f"{plan.price_source}; without the snapshot, which costs while it exists", indent="  ")
        screen.field("updates", "none: they would replace the kernel and the Neuron packages", indent="  ")
    for finding in plan.findings:
        screen.err.print(finding_line(finding))
    if plan.standing is not None and plan.asks:
        screen.say("  ! what is left of a build of that name that failed is deleted first", style="yellow")
    elif plan.standing is not None:
        screen.say(f"  {plan.name} is already {plan.standing.state}: nothing new is built", style="dim")
    if spec.ami is not None and plan.asks:
        screen.say(f"  the cluster file says image.ami: {spec.ami}, which is replaced at the end", style="dim")
    screen.say()


def _dry(screen: Screen, plan: ImagePlan) -> None:
    if screen.json:
        parent = plan.parent.id if plan.parent else None
        told = {"image": plan.name, "parent": parent, "configuration": plan.document or None}
        screen.data({**told, "findings": [one.as_json() for one in plan.findings]})
    elif plan.document:
        screen.text(plan.document)


def step_words(step: ImageStep) -> str:
    """`building  12m05s  Image Builder: BUILDING`."""
    state = step.image.state if step.image else "gone"
    builder = f"  Image Builder: {step.image.builder}" if step.image and step.image.builder else ""
    return f"{state}  {duration(step.elapsed_s)}{builder}"


def _built(screen: Screen, session: Session, plan: ImagePlan, ami: str, left: Finding | None) -> None:
    """The end of a build: the AMI stands in the cluster file; and what of the build is left over, if that is known."""
    if left is not None and left not in plan.findings:
        screen.err.print(finding_line(left))
    path = _write(session, ami)
    screen.say(f"  image.ami stands in {path} now" if path else "  the cluster file has it already", style="dim")
    findings = [*plan.findings, *([left] if left is not None and left not in plan.findings else [])]
    told = [one.as_json() for one in findings]
    result = {"image": plan.name, "ami": ami, "region": plan.spec.region, "file": session.path(), "findings": told}
    screen.done(result, f"{plan.name} is {ami}.", after="trnctl cluster validate, trnctl cluster create")


def _write(session: Session, ami: str) -> str | None:
    """Write the AMI into the cluster file, where it was not there; the file that was changed."""
    from trnctl.cli.files import read_cluster_file, read_text, replace_text
    from trnctl.specs.editing import with_ami

    path = session.path()
    if path is None or session.spec().ami == ami:
        return None
    text = with_ami(read_text(path, "cluster file"), ami)
    read_cluster_file(path, text)  # what is written can be read again
    replace_text(path, text)
    return path


def images(screen: Screen, found: Sequence[ListedImage], region: str, services: Services) -> None:
    """`image list`."""
    from trnctl.actions.image import OS_TAG
    from trnctl.render.image import SDK_TAG

    screen.notice(services.notice)
    now = services.clock.now()

    def age(row: ListedImage) -> float | None:
        created = row.ami.created if row.ami else None
        return max(0.0, (now - created).total_seconds()) if created else None

    def tag(row: ListedImage, name: str) -> str:
        return row.ami.tags.get(name, "") if row.ami else ""

    if screen.json:
        keys = ("image", "state", "ami", "os", "neuron_sdk", "version", "age_s")
        rows = [
            (
                row.built.name, row.built.state, row.built.ami or None, tag(row, OS_TAG) or None,
                tag(row, SDK_TAG) or None, row.built.version, age(row),
            )
            for row in found
        ]  # fmt: skip
        screen.data({"images": [dict(zip(keys, row, strict=True)) for row in rows], "region": region})
        return
    if not found:
        screen.say(f"ParallelCluster has built no image in {region}; trnctl image build makes one.")
        return
    shown = []
    for row in found:
        old = age(row)
        facts = [tag(row, OS_TAG) or "–", tag(row, SDK_TAG) or "–", row.built.version]
        shown.append(
            [row.built.name, row.built.state, row.built.ami or "–", *facts, "–" if old is None else duration(old)]
        )
    screen.table(["image", "state", "ami", "os", "neuron", "pcluster", "age"], shown, right=[6])

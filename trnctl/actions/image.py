"""Build an AMI for a cluster's nodes from Neuron's own image, and list those that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trnctl.actions.stack import PATIENCE_S, cause
from trnctl.actions.why import explain_failure
from trnctl.errors import CloudError, NotFoundError, RefusedError, ThrottledError, ToolError, UsageError, WaitedTooLong
from trnctl.findings import Finding, errors_among
from trnctl.plan import dlami
from trnctl.ports import BuiltImage, MachineImage, Services
from trnctl.render.image import SDK_TAG, image_document
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.prices import TABLE, Prices

DEFAULT_TYPE = "c5.4xlarge"  # a build compiles, and needs no accelerator
POLL_SECONDS, SLOW_POLL_SECONDS = 3.0, 15.0  # each look starts pcluster
LIMIT_S = 4 * 60 * 60
OS_TAG = "parallelcluster:os"
IMAGE_TAG = "parallelcluster:image_id"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")  # PCLUSTER_IMAGE_ID_REGEX in pcluster/constants.py


@dataclass(frozen=True)
class ImageWish:
    """What the command line says; '' for what it leaves open."""

    name: str = ""
    parent: str = ""
    instance_type: str = ""
    subnet: str = ""
    security_group: str = ""


@dataclass(frozen=True)
class ImagePlan:
    """What `image build` will do. `standing` is what is there under that name; `parent` is None where that is enough.
    `hour_usd` is what the instance costs an hour, None when nobody has told."""

    spec: ClusterSpec
    name: str
    parent: MachineImage | None
    instance_type: str
    document: str
    findings: tuple[Finding, ...] = ()
    standing: BuiltImage | None = None
    hour_usd: float | None = None
    price_source: str = ""

    @property
    def asks(self) -> bool:
        """Whether something new will be made, so that a person should confirm."""
        return self.standing is None or self.standing.state in {"failed", "delete-failed"}


def default_name(spec: ClusterSpec) -> str:
    """A name for the image that says what is in it, so that every cluster that wants the same finds it."""
    return f"trn-{spec.neuron_sdk}-{spec.os}-{spec.pcluster.version}".replace(".", "-")


def plan_image(spec: ClusterSpec, wish: ImageWish, services: Services, prices: Prices = TABLE) -> ImagePlan:
    """Look up what is there and what to build from. UsageError for a name or a pair of options that cannot be;
    RefusedError for a parent that does not fit, and for a name that something else has."""
    name = wish.name or default_name(spec)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--name {name} cannot name an image",
            remedy="write at most 128 letters, digits and hyphens, the first a letter",
        )
    if bool(wish.subnet) != bool(wish.security_group):
        raise UsageError(
            "ParallelCluster takes a subnet for the build only with a security group, and that only with a subnet",
            remedy="give both: --subnet subnet-… --security-group sg-…; without them it takes the default VPC",
        )
    kind = wish.instance_type or DEFAULT_TYPE
    standing = standing_image(name, services)
    plan = ImagePlan(spec, name, None, kind, "", standing=standing)
    if not plan.asks:
        _check_standing(plan)
        left = leftover_stack(name, spec.region, services)
        return replace(plan, findings=(left,) if left else ())
    parent = _parent(spec, wish.parent, services)
    found = dlami.parent_findings(parent, spec)
    if errors := errors_among(found):
        raise RefusedError(errors[0].message, remedy=errors[0].remedy, findings=found)
    text = image_document(
        spec, name=name, parent=parent.id, instance_type=kind, subnet=wish.subnet, security_group=wish.security_group
    )
    return replace(
        plan, parent=parent, document=text, findings=tuple(found), hour_usd=prices.of(kind),
        price_source=prices.source(kind),
    )  # fmt: skip


def standing_image(name: str, services: Services) -> BuiltImage | None:
    """What is there under that name."""
    try:
        return services.provisioner.describe_image(name)
    except NotFoundError:
        return None


def leftover_stack(name: str, region: str, services: Services) -> Finding | None:
    """The stack of a build deletes itself once the AMI is there, and sometimes cannot: then `pcluster` shows the AMI
    and never the stack. None where it is gone, goes, or cannot be asked about."""
    try:
        events = services.cloud.stack_events(name)
    except CloudError:
        return None
    own = [at for at, event in enumerate(events) if event.logical_id == name]
    if not own or events[own[-1]].status != "DELETE_FAILED":
        return None
    begun = max((at for at in own if events[at].status == "DELETE_IN_PROGRESS"), default=0)
    stuck = {one.logical_id: one for one in events[begun:] if one.status == "DELETE_FAILED" and one.logical_id != name}
    why = "; ".join(f"{one.logical_id}: {one.reason or 'no reason given'}" for one in stuck.values())
    why = why or events[own[-1]].reason or "no reason given"
    keep = f" --retain-resources {' '.join(stuck)}" if stuck else ""
    return Finding(
        "image-stack-leftover",
        "warning",
        f"the stack {name} of the image's build could not delete itself ({why})",
        f"Delete it: aws cloudformation delete-stack --region {region} --stack-name {name}{keep}. What is retained so "
        "must be deleted by hand.",
    )


def _check_standing(plan: ImagePlan) -> None:
    """What is there must be what the file wants, as far as it tells."""
    found, spec = plan.standing, plan.spec
    if found is None:
        return
    if found.state == "deleting":
        raise RefusedError(
            f"an image named {plan.name} is being deleted",
            remedy="run this command again when trnctl image list shows it no more, or choose another --name",
        )
    wanted = {
        "ParallelCluster": (found.version, spec.pcluster.version),
        "os": (found.tags.get(OS_TAG, ""), spec.os),
        "Neuron": (found.tags.get(SDK_TAG, ""), spec.neuron_sdk),
    }
    for what, (has, wants) in wanted.items():
        if has and has != wants:
            raise RefusedError(
                f"the image {plan.name} is there with {what} {has}, and the cluster file says {wants}",
                remedy="choose another --name, or change the file",
            )


def _parent(spec: ClusterSpec, wanted: str, services: Services) -> MachineImage:
    """The image to build from. RefusedError names the way out when there is none."""
    if wanted:
        for one in services.account.machine_images(ids=[wanted]):
            return one
        raise RefusedError(
            f"there is no available image {wanted} in {spec.region}, or this account may not see it",
            remedy="check the id and the region: an AMI lives in one region",
        )
    if not dlami.has_dlami(spec.os):
        raise RefusedError(
            f"Neuron has no image of its own for {spec.os}", remedy="name one to build from: --parent ami-…"
        )
    images = services.account.machine_images(owner=dlami.OWNER, name=dlami.NAMES)
    if found := dlami.parent_of(images, spec):
        return found
    near = dlami.candidates(images, spec.os)
    newest = f"; the newest is {near[-1].id} ({near[-1].name})" if near else ""
    raise RefusedError(
        f"none of the {len(near)} images of Neuron's for {spec.os} in {spec.region} names release {spec.neuron_sdk}"
        f"{newest}",
        remedy="name one that you know to have it: --parent ami-…; or write the release of one in neuron_sdk",
    )


@dataclass(frozen=True)
class ImageStep:
    """One look at a build: what ParallelCluster says of it (None: it is gone), and for how long it has gone on."""

    image: BuiltImage | None
    elapsed_s: float


def build_image(plan: ImagePlan, services: Services) -> Iterator[ImageStep]:
    """Build it, yielding each look to the end; the last one has the AMI. ToolError tells what made it fail.

    Can be run again: a build that is under way is watched, an image that is there is a success, what is left of a build
    that failed is deleted first.
    """
    if plan.asks:
        if plan.standing is not None:
            services.provisioner.delete_image(plan.name)
            yield from _watch(plan.name, services, {None, "delete-failed"})
            if left := leftover_stack(plan.name, plan.spec.region, services):
                raise ToolError(left.message, remedy=f"{left.remedy} Then run this command again.", findings=[left])
        services.provisioner.build_image(plan.name, plan.document)
    last: ImageStep | None = None
    for step in _watch(plan.name, services, {None, "available", "failed", "delete-failed"}):
        last = step
        yield step
    found = last.image if last else None
    if found is None or found.state != "available":
        raise failure(plan, found, services)


def _watch(name: str, services: Services, until: set[str | None]) -> Iterator[ImageStep]:
    """Look until the state is one of these. WaitedTooLong after LIMIT_S; the build goes on."""
    began = answered = since = services.clock.now()
    while True:
        now = services.clock.now()
        try:
            found = standing_image(name, services)
        except ThrottledError:
            if (now - answered).total_seconds() > PATIENCE_S:
                raise
        else:
            answered = now
            if found and found.began and found.state != "available":  # else that is the AMI's date, not the build's
                since = found.began
            yield ImageStep(found, max(0.0, (now - since).total_seconds()))
            if (found.state if found else None) in until:
                return
        if (now - began).total_seconds() > LIMIT_S:
            raise WaitedTooLong(
                f"the image {name} is still not there after {LIMIT_S // 3600} hours",
                remedy="the build goes on: trnctl image list shows it, and trnctl image build takes up the wait",
            )
        services.clock.sleep(POLL_SECONDS if (now - began).total_seconds() < 60 else SLOW_POLL_SECONDS)


def failure(plan: ImagePlan, found: BuiltImage | None, services: Services) -> ToolError:
    """The error for a build that did not get there: the known cause, else what the stack's events say, else pcluster's
    words; and where the log is."""
    log = f" Its log group in CloudWatch is {found.log}." if found and found.log else ""
    again = f"Mend the cause, then run this command again: it deletes what is left of the build first.{log}"
    known = explain_failure(plan.name, "built", services, plan.spec)
    if known is not None:
        return ToolError(known.message, remedy=f"{known.findings[0].remedy} {again}", findings=known.findings)
    try:
        event = cause(services.cloud.stack_events(plan.name), plan.name)
    except CloudError:
        event = None
    if event is not None and event.reason:
        why = f"{event.logical_id} ({event.resource_type}) failed: {event.reason}"
    elif found is not None:
        why = found.reason or f"ParallelCluster says {found.state}"
    else:
        why = "its stack is gone, and there is no AMI"
    return ToolError(f"the image {plan.name} could not be built: {why}", remedy=again)


@dataclass(frozen=True)
class ListedImage:
    """One row of `image list`; `ami` tells more than pcluster's list does, where it is there."""

    built: BuiltImage
    ami: MachineImage | None = None


def list_images(services: Services) -> list[ListedImage]:
    """All images, those with an AMI with what EC2 says of it, oldest first; what has no AMI yet comes last."""
    built: Sequence[BuiltImage] = services.provisioner.images()
    known = {one.id: one for one in services.account.machine_images(owner="self", tag=IMAGE_TAG)}
    rows = [ListedImage(one, known.get(one.ami)) for one in built]
    return sorted(rows, key=lambda row: (row.ami is None, str(row.ami.created) if row.ami else "", row.built.name))

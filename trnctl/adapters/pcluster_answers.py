"""What pcluster's JSON says, as findings, changes and errors; pure functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from trnctl.adapters.aws_errors import known_refusal
from trnctl.errors import NameTaken, NotFoundError, RefusedError, ToolError, TrnctlError, UsageError
from trnctl.findings import Finding, Level, errors_among
from trnctl.ports import BuiltImage, Change, ImageState

_LEVELS: dict[str, Level] = {"ERROR": "error", "WARNING": "warning", "INFO": "info"}
# What to do about the validators that a Trainium cluster meets most; all others get the general advice.
_REMEDIES = {
    "KeyPairValidator": "Write the name of an ed25519 key pair of this region in head_node.key_name.",
    "EfaValidator": "Set efa: false for this compute resource, or choose a type that has EFA.",
    "EfaSecurityGroupValidator": "Let the security group allow all traffic to and from itself, both ways.",
    "EfaPlacementGroupValidator": "Set placement_group in the queue: true, false, or a name.",
    "EfaMultiAzValidator": "Give the queue one subnet.",
    "FsxStorageCapacityValidator": "Set capacity_gib to 1200, 2400, or a multiple of 2400.",
    "FsxPersistentOptionsValidator": "Set throughput with PERSISTENT_1 and PERSISTENT_2, and only with these.",
    "HeadNodeLaunchTemplateValidator": "AWS's own dry run refused the head node: change what it names.",
    "ComputeResourceLaunchTemplateValidator": "AWS's own dry run refused the compute nodes: change what it names.",
    "InstanceTypeValidator": "Choose an instance type that this region offers.",
    "MultiNetworkInterfacesInstancesValidator": "Use a private subnet for compute nodes: one that gives no public IPs.",
    "SubnetsValidator": "Name subnets of one VPC of this region: trnctl network show.",
    "DeletionPolicyValidator": "Set on_delete: retain if its data should outlive the cluster.",
    "AmiOsCompatibleValidator": "Use an image that was built for this os and this version of ParallelCluster.",
    "CustomAmiTagValidator": "Build the image with this version: trnctl image build.",
    "SecurityGroupsAndSubnetValidator": "Name both: --subnet and --security-group.",
    "CapacityReservationValidator": "Check the reservation's type, zone and state.",
}
_GENERAL = "Change it in trnctl.yaml (or in its extra section); trnctl cluster render shows what pcluster reads."
_STOP_FLEET = "Stop the fleet (trnctl cluster fleet stop), wait until it has stopped, and update again."


def findings_of(answer: Mapping[str, Any]) -> list[Finding]:
    """Everything that pcluster found: verdicts on the file, on the update, and the notices of one that passed."""
    messages = [*answer.get("configurationValidationErrors", []), *answer.get("validationMessages", [])]
    found = [finding for message in messages for finding in _validation(message)]
    found += [_update_error(error) for error in answer.get("updateValidationErrors", [])]
    return found


def changes_of(answer: Mapping[str, Any]) -> list[Change]:
    """The change set of an update; pcluster writes `-` for a value that is not there."""
    rows = answer.get("changeSet", [])
    return [Change(row["parameter"], row.get("currentValue", "-"), row.get("requestedValue", "-")) for row in rows]


_IMAGE_STATES: dict[str, ImageState] = {
    "BUILD_IN_PROGRESS": "building",
    "BUILD_FAILED": "failed",
    "BUILD_COMPLETE": "available",
    "DELETE_IN_PROGRESS": "deleting",
    "DELETE_COMPLETE": "deleting",
    "DELETE_FAILED": "delete-failed",
}


def image_of(row: Mapping[str, Any]) -> BuiltImage:
    """An image as `describe-image` and `list-images` tell of it.

    A build is complete for pcluster as soon as its stack is; the AMI gets its mark, by which it is found from then on,
    a moment later, and may still be copied: until it is there and available we call that building.
    """
    found = row.get("ec2AmiInfo") or {}
    state = _IMAGE_STATES.get(str(row.get("imageBuildStatus", "")), "building")
    if state == "available" and not (found.get("amiId") and found.get("state", "AVAILABLE") == "AVAILABLE"):
        state = "building"
    tags = {str(tag["key"]): str(tag["value"]) for tag in found.get("tags", [])}
    began = row.get("creationTime") or row.get("cloudformationStackCreationTime")
    reasons = [row.get("imagebuilderImageStatusReason"), row.get("cloudformationStackStatusReason")]
    return BuiltImage(
        row["imageId"],
        state,
        version=row.get("version") or "",
        ami=found.get("amiId", ""),
        began=datetime.fromisoformat(began).astimezone(UTC) if began else None,
        builder=row.get("imagebuilderImageStatus") or "",
        reason=next((" ".join(str(one).split()) for one in reasons if one), ""),
        log=(row.get("imageBuildLogsArn") or tags.get("parallelcluster:build_log", "")).rpartition("log-group:")[2],
        tags=tags,
    )


def code_of(validator: str) -> str:
    """A finding's code from a validator's class name: FsxStorageCapacityValidator -> pcluster-fsx-storage-capacity."""
    words = re.findall(r"[A-Z]+\d*(?=[A-Z][a-z]|$)|[A-Z][a-z0-9]*|[a-z0-9]+", validator.removesuffix("Validator"))
    return "-".join(["pcluster", *(word.lower() for word in words)])


def _validation(message: Mapping[str, Any]) -> Iterator[Finding]:
    validator = message.get("type") or "Configuration"
    level = _LEVELS.get(message.get("level", ""), "error")
    text = str(message.get("message", ""))
    if validator == "ConfigSchemaValidator":
        places = list(_schema_places(text))
        if places:
            for path, what in places:
                yield Finding(code_of(validator), level, what, _GENERAL, path=path, evidence=text)
            return
    yield Finding(code_of(validator), level, text, _REMEDIES.get(validator, _GENERAL), evidence=validator)


def _schema_places(text: str) -> Iterator[tuple[str, str]]:
    """Each (path, message) of the schema's message, which is a Python literal:
    `[('Image', {'Os': ['Must be …']}), ('Scheduling', {'SlurmQueues': {0: {…}}})]`."""
    try:
        tree = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return
    if isinstance(tree, list) and all(isinstance(item, tuple) and len(item) == 2 for item in tree):
        for key, value in tree:
            yield from _leaves(value, str(key))


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield path, str(value)


def _update_error(error: Mapping[str, Any]) -> Finding:
    message = str(error.get("message", ""))
    change = f"{error.get('currentValue', '-')} → {error.get('requestedValue', '-')}"
    stops = "ompute nodes must be stopped" in message or "top the compute fleet" in message
    remedy = _STOP_FLEET if stops else "Leave this as it is, or make a new cluster."
    code = "pcluster-needs-stopped-fleet" if stops else "pcluster-update-refused"
    return Finding(code, "error", message, remedy, path=error.get("parameter", ""), evidence=change)


# Messages that pcluster words itself (3.0 to 3.16): pattern, kind of error, remedy.
_MESSAGES: tuple[tuple[str, type[TrnctlError], str], ...] = (
    (r"No image or stack associated", NotFoundError, "List the images: trnctl image list."),
    (
        r"for image \S+ or a CloudFormation Stack .* already exists|ParallelCluster image \S+ already exists",
        RefusedError,
        "Run trnctl image build again, which waits for it, or choose another name with --name.",
    ),
    (r"does not exist or belongs to an incompatible", NotFoundError, "List the clusters: trnctl cluster list."),
    (
        r"already exists",
        NameTaken,
        "Somebody has made it meanwhile, or makes it now. Run trnctl cluster create again: it follows a creation to its"
        " end, and deletes the remains of a failed one first; or choose another name.",
    ),
    (
        r"is in \w+_IN_PROGRESS state and can ?not be updated",
        RefusedError,
        "Another update is under way. Run trnctl cluster update again: it waits for that one, then changes what the"
        " file still asks for.",
    ),
    (
        r"[Nn]ode\.js|node executable|reading 'metadata'|_NodeProcess",
        ToolError,
        "Install node.js 20 or newer, put it first on PATH, and run trnctl doctor.",
    ),
    (
        r"only with the same ParallelCluster version",
        ToolError,
        "Install the version that made the cluster, and point cluster.pcluster.executable to it.",
    ),
    (r"JSONEncoder|No module named", ToolError, "Its installation is broken: install it anew, then run trnctl doctor."),
    (
        r"Unexpected fatal exception",
        ToolError,
        "The reason stands in ~/.parallelcluster/pcluster-cli.log, at its end.",
    ),
    (r"region is set in both", UsageError, "Use the region of the file, or leave --region out."),
)  # fmt: skip


def refusal_of(answer: Mapping[str, Any], region: str) -> TrnctlError:
    """The error for an answer that came with a failure."""
    message = " ".join(str(answer.get("message", "")).split())
    findings = findings_of(answer)
    if findings:
        errors = errors_among(findings)
        first = errors[0] if errors else findings[0]
        return RefusedError(
            f"pcluster refused the configuration: {len(errors)} error{'s' if len(errors) != 1 else ''}."
            f" {': '.join(part for part in (first.path, first.message) if part)}",
            remedy=first.remedy,
            findings=findings,
        )
    for pattern, kind, remedy in _MESSAGES:
        if re.search(pattern, message):
            where = f" (in {region})" if kind is NotFoundError else ""
            return kind(f"pcluster: {message}{where}", remedy=remedy)
    refused = known_refusal(message)
    if refused is not None:
        return refused
    if message.startswith("Invalid cluster configuration"):
        detail = message.partition(": ")[2] or message
        finding = Finding("pcluster-configuration", "error", detail, _GENERAL)
        return RefusedError(f"pcluster refused the configuration: {detail}", remedy=_GENERAL, findings=[finding])
    if message.startswith("Bad Request"):
        return UsageError(f"pcluster: {message}", remedy="Change what it names in trnctl.yaml or on the command line.")
    return ToolError(f"pcluster failed: {message}", remedy="See ~/.parallelcluster/pcluster-cli.log for more.")

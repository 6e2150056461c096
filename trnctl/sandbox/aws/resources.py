"""One resource of a stack at a time: made, changed and deleted through moto's models.

moto's models raise whatever their service raises, so each step catches everything, logs it, and gives the text to
the resource's event: on AWS, too, a failure of a service is a failure of the resource.
"""

from __future__ import annotations

import logging
from typing import Any

from moto.cloudformation import parsing
from moto.cloudformation.models import Stack
from moto.cloudformation.utils import generate_stack_id, get_stack_from_s3_url
from moto.ec2.models.core import TaggedEC2Resource
from moto.utilities.utils import get_partition

from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.aws.plain import Plain
from trnctl.sandbox.aws.progress import ResourceFailed
from trnctl.sandbox.aws.removals import REMOVALS
from trnctl.sandbox.aws.seeds import ACCOUNT
from trnctl.sandbox.aws.templates import with_tags

_log = logging.getLogger(__name__)


def wanted_resources(stack: Any) -> dict[str, Any]:
    """The resources of a stack's template whose condition holds."""
    conditions = stack.resource_map.lazy_condition_map
    return {
        name: resource
        for name, resource in stack.resource_map._resource_json_map.items()
        if "Condition" not in resource or conditions[resource["Condition"]]
    }


def exists(stack: Any, name: str) -> bool:
    """Whether a resource of the template has been made and not deleted."""
    return stack.resource_map._parsed_resources.get(name) is not None


def create_resource(stack: Any, name: str) -> None:
    """Make a resource. Raises ResourceFailed with the text of whatever went wrong."""
    known = stack.resource_map
    if exists(stack, name):
        return
    resource = with_tags(known._resource_json_map[name], stack.tags)
    if resource["Type"] not in parsing.get_model_map():
        raise ResourceFailed(f"The sandbox does not emulate resources of type {resource['Type']}.")
    try:
        made = parsing.parse_and_create_resource(name, resource, known, stack.account_id, stack.region_name)
    except Exception as error:  # any: see the module
        _log.exception("%s of stack %s", name, stack.name)
        raise ResourceFailed(_text(error)) from error
    known._parsed_resources[name] = made
    if isinstance(made, TaggedEC2Resource):
        Backends(stack.region_name).ec2.create_tags([made.physical_resource_id], _ec2_tags(stack, name))
    elif isinstance(made, Plain):
        made.tag(stack.tags)


def update_resource(stack: Any, name: str) -> None:
    """Change a resource in place to what the stack's template says now. Raises ResourceFailed."""
    known = stack.resource_map
    try:
        resource = with_tags(known._resource_json_map[name], stack.tags)
        changed = parsing.parse_and_update_resource(name, resource, known, stack.account_id, stack.region_name)
    except NotImplementedError:
        changed = None  # some of moto's types say so in this way (EFS mount targets)
    except Exception as error:  # any: see the module
        _log.exception("%s of stack %s", name, stack.name)
        raise ResourceFailed(_text(error)) from error
    if changed is not None:  # moto has no update for this type: what is there stays as it is
        known._parsed_resources[name] = changed


def delete_resource(stack: Any, name: str) -> None:
    """Delete a resource; silent when it has been deleted by other means. Raises ResourceFailed."""
    known = stack.resource_map
    made = known._parsed_resources[name]
    resource = parsing.clean_json(known._resource_json_map[name], known)
    try:
        if remove := REMOVALS.get(resource["Type"]):
            remove(Backends(stack.region_name).ec2, made)
        else:
            known._delete_resource(made, resource)
    except Exception as error:  # any: see the module
        if "NotFound" in str(getattr(error, "code", "")):
            return
        _log.exception("%s of stack %s", name, stack.name)
        raise ResourceFailed(_text(error)) from error


def new_nested_stack(parent: Any, name: str) -> Any:
    """A nested stack, registered but without resources yet; the parent refers to it by its id."""
    known = parent.resource_map
    backend = Backends(parent.region_name).cloudformation
    template, parameters = nested_template(parent, name)
    full_name = parsing.generate_resource_name("AWS::CloudFormation::Stack", parent.name, name)
    nested = Stack(
        stack_id=generate_stack_id(full_name, parent.region_name, parent.account_id),
        name=full_name,
        template=template,
        parameters=parameters,
        account_id=parent.account_id,
        region_name=parent.region_name,
        tags=dict(parent.tags),
        cross_stack_resources=backend.exports,
    )
    nested.parent_id, nested.root_id = parent.stack_id, getattr(parent, "root_id", parent.stack_id)
    nested.cf_resource_type, nested.logical_resource_id = "AWS::CloudFormation::Stack", name
    backend.stacks[nested.stack_id] = nested
    known._parsed_resources[name] = nested
    return nested


def nested_template(parent: Any, name: str) -> tuple[str, dict[str, Any]]:
    """Text and parameters of a nested stack as its parent gives them now. Raises ResourceFailed."""
    properties = parsing.clean_json(parent.resource_map._resource_json_map[name], parent.resource_map)["Properties"]
    try:
        text = get_stack_from_s3_url(properties["TemplateURL"], ACCOUNT, get_partition(parent.region_name))
    except Exception as error:  # any: see the module
        raise ResourceFailed(f"The template {properties['TemplateURL']} cannot be read: {_text(error)}") from error
    return text, properties.get("Parameters", {})


def _ec2_tags(stack: Any, name: str) -> dict[str, str]:
    return {
        **stack.tags,
        "aws:cloudformation:stack-name": stack.name,
        "aws:cloudformation:stack-id": stack.stack_id,
        "aws:cloudformation:logical-id": name,
    }


def _text(error: Exception) -> str:
    """What AWS would say of the failure: its message when moto gives one."""
    return str(getattr(error, "message", "") or error or type(error).__name__)

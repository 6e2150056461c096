"""The base of the resource types that moto lacks: by itself, a type of which only the existence matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

Properties = Mapping[str, Any]


class Plain:
    """A resource of which only the existence matters: a physical id and an ARN."""

    arn: ClassVar[str] = "arn:aws:cloudformation:{region}:{account}:resource/{id}"

    def __init__(self, name: str, properties: Properties, account: str, region: str) -> None:
        self.id, self.properties, self.account, self.region = name, properties, account, region

    @classmethod
    def make(cls, name: str, properties: Properties, account: str, region: str) -> Self:
        """Create the resource; `name` is the one that CloudFormation would generate."""
        return cls(name, properties, account, region)

    def attribute(self, name: str) -> Any:
        """The value of Fn::GetAtt."""
        if name == "Arn":
            return self.arn.format(region=self.region, account=self.account, id=self.id)
        return f"{self.id}.{name}"

    def delete(self, account: str, region: str) -> None:
        """Remove the resource; moto calls it so."""

    def tag(self, tags: Mapping[str, str]) -> None:
        """Take over the tags of the stack, where the type shows tags and CloudFormation has no property for them."""

    # What follows is moto's protocol.

    @property
    def physical_resource_id(self) -> str:
        return self.id

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return True

    def get_cfn_attribute(self, attribute_name: str) -> Any:
        return self.attribute(attribute_name)

    def is_created(self) -> bool:
        return True

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
    ) -> Self:
        return cls.make(resource_name, cloudformation_json["Properties"], account_id, region_name)

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: Self,
        new_resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
    ) -> Self:
        original_resource.properties = cloudformation_json["Properties"]
        return original_resource

"""EC2's words for an AMI as a record."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from trnctl.adapters import aws_records as records
from trnctl.ports import MachineImage


def machine_image_of(item: Mapping[str, Any]) -> MachineImage:
    """EC2 gives the date of an image as a text, `2026-08-13T04:05:06.000Z`."""
    written = str(item.get("CreationDate") or "")
    return MachineImage(
        item["ImageId"],
        name=item.get("Name", ""),
        description=item.get("Description", ""),
        architecture=item.get("Architecture", ""),
        created=datetime.fromisoformat(written).astimezone(UTC) if written else None,
        tags=records.tags_of(item),
    )

"""The dated price table: what an instance-hour costs, by type and by how it is bought, as far as that is published.

On-demand prices stand with the instance types (`specs.instances`). Spot and capacity-block prices change by the hour
and by the zone; the few that are known are single readings, each with its place and its date.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trnctl.specs.instances import PRICE_DATE, PRICE_REGION, instance

ON_DEMAND, SPOT, BLOCK = "on-demand", "spot", "capacity-block"


@dataclass(frozen=True)
class Reading:
    """One published price: US dollars an hour, where and when it was read."""

    usd: float
    words: str


# Third parties' readings of AWS's own price lists, October 2026.
READINGS: Mapping[tuple[str, str], Reading] = {
    ("trn2.48xlarge", SPOT): Reading(
        14.56, "spot in us-east-2c, 2026-10, read by a third party; 8.99 to 15.37 within 30 days"
    ),
    ("trn2.48xlarge", BLOCK): Reading(
        35.76, "a 24 h capacity block in ap-south-2b, 2026-10, read by a third party; paid in advance"
    ),
}


@dataclass(frozen=True)
class Prices:
    """Where a price comes from, in this order: `own` (the user's word), `asked` (AWS's price list, on `asked_on`, for
    the cluster's region), the table."""

    own: Mapping[str, float] = field(default_factory=dict)
    asked: Mapping[str, float] = field(default_factory=dict)
    asked_on: str = ""

    def of(self, instance_type: str, capacity: str = ON_DEMAND) -> float | None:
        """US dollars an hour, None when nobody has told. Spot without a reading costs at most the on-demand price; a
        reservation costs that price, used or not; a capacity block was paid in advance."""
        if instance_type in self.own:
            return self.own[instance_type]
        if (instance_type, capacity) in READINGS:
            return READINGS[instance_type, capacity].usd
        if capacity == BLOCK:
            return None
        if instance_type in self.asked:
            return self.asked[instance_type]
        facts = instance(instance_type)
        return facts.price_usd if facts is not None else None

    def source(self, instance_type: str, capacity: str = ON_DEMAND) -> str:
        """Whose price that is, and of when."""
        if instance_type in self.own:
            return f"your price of {instance_type}"
        if (instance_type, capacity) in READINGS:
            return f"{instance_type}: {READINGS[instance_type, capacity].words}"
        if instance_type in self.asked:
            return f"AWS's price list, asked on {self.asked_on}"
        listed = f"on-demand list price of {PRICE_REGION}, {PRICE_DATE}"
        return f"{listed}, which spot costs at most" if capacity == SPOT else listed

    def basis(self, kinds: Mapping[str, str] | None = None) -> str:
        """What the prices of these types rest on (capacity by type; without them, of on-demand instances)."""
        table = f"on-demand list prices of {PRICE_REGION}, {PRICE_DATE}"
        told = [self.source(name, capacity) for name, capacity in (kinds or {}).items()]
        words = [one.replace("list price of", "list prices of") for one in told] or [table]
        return "; ".join([*dict.fromkeys(words), "without storage, transfer and tax"])


TABLE = Prices()

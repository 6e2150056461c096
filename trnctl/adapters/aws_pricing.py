"""AWS's price list of EC2 instances, through botocore."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trnctl.adapters.aws_clients import Clients

PLACE = "us-east-1"  # the price list has endpoints in three regions only; this one knows the prices of all
_LINUX = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}


def on_demand_prices(clients: Clients, instance_types: Iterable[str]) -> dict[str, float]:
    """US dollars an hour by type, on demand, Linux, in the clients' region; a type without such a price is left out.
    Raises CloudError."""
    there, wanted = clients.elsewhere(PLACE), sorted(set(instance_types))
    there.client("pricing")  # made here, by one thread

    def ask(name: str) -> float | None:
        facts = {**_LINUX, "instanceType": name, "regionCode": clients.region}
        filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in facts.items()]
        answer = there.call("pricing", "get_products", ServiceCode="AmazonEC2", Filters=filters)
        return hourly(answer.get("PriceList", []))

    with ThreadPoolExecutor(max_workers=4) as pool:
        found = dict(zip(wanted, pool.map(ask, wanted), strict=True))
    return {name: usd for name, usd in found.items() if usd is not None}


def hourly(products: Iterable[str | Mapping[str, Any]]) -> float | None:
    """The dearest on-demand price an hour of these products (each a JSON text), None when none is above zero: a type
    that is sold in capacity blocks only stands there at no price."""
    prices = []
    for product in products:
        told = json.loads(product) if isinstance(product, str) else product
        for term in told.get("terms", {}).get("OnDemand", {}).values():
            for part in term.get("priceDimensions", {}).values():
                usd = float(part.get("pricePerUnit", {}).get("USD", 0))
                if part.get("unit") == "Hrs" and usd > 0:
                    prices.append(usd)
    return max(prices, default=None)

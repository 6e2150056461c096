"""AWS's price list, of which moto knows nothing: GetProducts for EC2, with the prices of trnctl's own dated table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trnctl.specs.instances import PRICE_DATE, instance


def get_products(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer to GetProducts, as the JSON protocol has it: each product is a JSON text of its own."""
    fields = {one["Field"]: one["Value"] for one in asked.get("Filters", [])}
    name, region = fields.get("instanceType", ""), fields.get("regionCode", "")
    facts = instance(name)
    if asked.get("ServiceCode") != "AmazonEC2" or facts is None or facts.price_usd is None:
        return {"FormatVersion": "aws_v1", "PriceList": []}
    part = {"unit": "Hrs", "pricePerUnit": {"USD": f"{facts.price_usd:.10f}"}, "beginRange": "0", "endRange": "Inf"}
    product = {
        "product": {"productFamily": "Compute Instance", "attributes": {"instanceType": name, "regionCode": region}},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {"SKU.TERM": {"priceDimensions": {"SKU.TERM.HOUR": part}}}},
        "publicationDate": f"{PRICE_DATE}T00:00:00Z",
    }
    return {"FormatVersion": "aws_v1", "PriceList": [json.dumps(product)]}

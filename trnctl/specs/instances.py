"""Facts about instance types as a table: what trnctl must know before it may ask AWS.

Sizes are EC2's (its specification page; a test compares them with EC2 data), memory of Trainium2 is the Neuron
documentation's 96 GiB a chip (EC2's interface reports 512). Prices are on-demand, Linux, us-east-1, from a price
list generated on PRICE_DATE, where one is published; `price_note` says what is different about one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

PRICE_DATE = "2026-07-20"
PRICE_REGION = "us-east-1"


@dataclass(frozen=True)
class InstanceFacts:
    """One instance type.

    `devices` are accelerators (Trainium chips or GPUs). `ranks` is the usual number of worker processes: NeuronCores
    at the default logical configuration (LNC=2 on Trainium2), or GPUs. `device_gib` is the memory of all devices,
    `local_gb` that of the instance's own NVMe disks. `price_usd` is per hour, None when none is published.
    `bf16_tflops` is the dense BF16 peak of all devices, `network_gbs` the bandwidth between nodes in gigabytes a
    second, one way.
    """

    type: str
    kind: Literal["trainium", "gpu", "cpu"]
    vcpus: int
    host_gib: int
    devices: int = 0
    ranks: int = 0
    device_gib: int = 0
    efa_interfaces: int = 0
    network_cards: int = 1
    local_gb: int = 0
    price_usd: float | None = None
    price_note: str = ""
    bf16_tflops: float | None = None
    network_gbs: float = 0.0

    @property
    def trainium1(self) -> bool:
        """First-generation Trainium, which only the frozen XLA stack trains on."""
        return self.type.startswith("trn1")

    @property
    def efa(self) -> bool:
        """Whether the type has Elastic Fabric Adapters."""
        return self.efa_interfaces > 0


_NO_PRICE = "no on-demand price is published"
# type, kind, vCPUs, host GiB, devices, ranks, device GiB, EFA interfaces, network cards, local GB, USD per hour, note,
# dense BF16 TFLOPS (of Trainium: Neuron's hardware pages; of GPUs: the vendor's figure, 312 an A100 and 989 an H100),
# network GB/s
_ACCELERATED = (
    InstanceFacts("trn1.2xlarge", "trainium", 8, 32, 1, 2, 32, 0, 1, 474, 1.34375, "", 190, 0.39),
    InstanceFacts("trn1.32xlarge", "trainium", 128, 512, 16, 32, 512, 8, 8, 7600, 21.50, "", 3040, 100),
    InstanceFacts("trn1n.32xlarge", "trainium", 128, 512, 16, 32, 512, 16, 16, 7600, 24.78, "", 3040, 200),
    InstanceFacts("trn2.3xlarge", "trainium", 12, 128, 1, 4, 96, 1, 1, 470, None, _NO_PRICE, 667, 25),
    InstanceFacts("trn2.48xlarge", "trainium", 192, 2048, 16, 64, 1536, 16, 16, 7600, None, _NO_PRICE, 10700, 400),
    InstanceFacts("trn2u.48xlarge", "trainium", 192, 2048, 16, 64, 1536, 16, 16, 7600, None, _NO_PRICE, 10700, 400),
    InstanceFacts("p4d.24xlarge", "gpu", 96, 1152, 8, 8, 320, 4, 4, 8000, 21.957642, "", 2496, 50),
    InstanceFacts("p4de.24xlarge", "gpu", 96, 1152, 8, 8, 640, 4, 4, 8000, 27.44705, "", 2496, 50),
    InstanceFacts("p5.48xlarge", "gpu", 192, 2048, 8, 8, 640, 32, 32, 30400, 55.04, "", 7912, 400),
)
_SIZES = {
    "large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32, "9xlarge": 36, "12xlarge": 48,
    "16xlarge": 64, "18xlarge": 72, "24xlarge": 96,
}  # fmt: skip
_C5 = ("large", "xlarge", "2xlarge", "4xlarge", "9xlarge", "12xlarge", "18xlarge", "24xlarge")
_OTHERS = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge", "24xlarge")
# What head nodes run on: family, GiB of memory a vCPU, sizes.
_GENERAL = (("c5", 2, _C5), ("m5", 4, _OTHERS), ("c6i", 2, _OTHERS), ("m6i", 4, _OTHERS), ("c7i", 2, _OTHERS))
_GENERAL_PRICES = {"c5.4xlarge": (0.68, "AWS's list price for us-east-1, read without a date")}


def _general() -> list[InstanceFacts]:
    made = []
    for family, gib_per_vcpu, sizes in _GENERAL:
        for size in sizes:
            name, vcpus = f"{family}.{size}", _SIZES[size]
            price, note = _GENERAL_PRICES.get(name, (None, "not in trnctl's price table"))
            made.append(InstanceFacts(name, "cpu", vcpus, vcpus * gib_per_vcpu, price_usd=price, price_note=note))
    return made


INSTANCES: Mapping[str, InstanceFacts] = {facts.type: facts for facts in (*_ACCELERATED, *_general())}


_ARM = re.compile(r"(a1|[a-z]+\d+g[a-z]*|p6e-gb\d+)\.")  # Graviton's families, and those with Grace
_TYPE = re.compile(r"([a-z]+\d+[a-z]*(?:-[a-z0-9]+)?)\.([a-z0-9-]+)")
_PLAIN_SIZE = re.compile(r"(\d*)xlarge")
# Families whose sizes do not count vCPUs as all others do.
_UNEVEN = ("hpc", "c1.", "c4.8", "d2.8", "m2.", "u-", "u7")


def architecture(instance_type: str) -> str:
    """`arm64` or `x86_64`, by the type's name; '' where that does not tell, or is no name of a type."""
    if _TYPE.fullmatch(instance_type) is None or instance_type.startswith(("mac", "u-")):
        return ""
    return "arm64" if _ARM.match(instance_type) else "x86_64"


def vcpus(instance_type: str) -> int | None:
    """How many vCPUs a type has: large 2, xlarge 4, nxlarge n times 4; None where its name does not tell."""
    _, _, size = instance_type.partition(".")
    found = _PLAIN_SIZE.fullmatch(size)
    if instance_type.startswith(_UNEVEN) or _TYPE.fullmatch(instance_type) is None:
        return None
    return 2 if size == "large" else 4 * int(found[1] or 1) if found else None


def instance(instance_type: str) -> InstanceFacts | None:
    """The facts of a type; None when the table does not know it."""
    return INSTANCES.get(instance_type)

"""EC2's quotas of Trn instances, as Service Quotas gives them; moto knows only those of VPCs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from moto.servicequotas.models import ServiceQuotasBackend

# Code -> name and vCPUs: 128 trn1.32xlarge on demand, half as many on the spot market.
QUOTAS: Mapping[str, tuple[str, float]] = MappingProxyType(
    {
        "L-2C3B7624": ("Running On-Demand Trn instances", 16384.0),
        "L-6B0D517C": ("All Trn Spot Instance Requests", 8192.0),
    }
)
_get_service_quota = ServiceQuotasBackend.get_service_quota  # moto's own, taken once


def install() -> None:
    """Let moto answer for EC2's Trn quotas too; a second call changes nothing."""
    ServiceQuotasBackend.get_service_quota = _with_trn


def _with_trn(backend: Any, service_code: str, quota_code: str) -> Any:
    if service_code != "ec2" or quota_code not in QUOTAS:
        return _get_service_quota(backend, service_code, quota_code)
    name, value = QUOTAS[quota_code]
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaCode": quota_code,
        "QuotaName": name,
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }

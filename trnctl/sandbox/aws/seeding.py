"""Puts the seeds into moto's backends: a network, keys, buckets, file systems, capacity."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from moto.s3.models import get_canned_acl

from trnctl.sandbox.aws import seeds as fixed
from trnctl.sandbox.aws.backends import Backends
from trnctl.sandbox.aws.capacity import Reservation, reservations
from trnctl.sandbox.aws.lustre import create_file_system
from trnctl.sandbox.aws.seeds import ACCOUNT, ReservationSeed, Seeds
from trnctl.sandbox.neuron.sources import objects

_NETWORK = "10.0.0.0/16"
_LUSTRE_PORT, _NFS_PORT = 988, 2049


@dataclass(frozen=True)
class Zones:
    """Where things stand: the zone of the fixed subnets, a second one with Trn, and one without."""

    main: str
    second: str
    other: str


def seed(backends: Backends, seeds: Seeds) -> None:
    """Fill an empty account."""
    zones = _zones(backends)
    vpc = _network(backends, zones, seeds)
    for name, kind in {**dict.fromkeys(seeds.keys, "ed25519"), **fixed.KEYS}.items():
        if name not in backends.ec2.key_pairs:
            backends.ec2.create_key_pair(name, kind, {})
    _buckets(backends, seeds)
    _file_systems(backends, vpc, seeds)
    found = reservations(backends.region)
    own = (
        ReservationSeed(fixed.RESERVATION, count=16),
        ReservationSeed(fixed.CAPACITY_BLOCK, count=4, block=True),
    )
    for each in own + seeds.reservations:
        found[each.id] = Reservation(each.id, each.instance_type, zones.main, each.count, each.block)


def _zones(backends: Backends) -> Zones:
    """us-west-2's are those of the documentation; elsewhere the last zones that offer a Trn type, if any does."""
    names = sorted(zone.name for zone in backends.ec2.describe_availability_zones())
    offers: set[str] = set()
    for type_ in ("trn1.32xlarge", "trn2.48xlarge", "trn2.3xlarge"):
        found = backends.ec2.describe_instance_type_offerings("availability-zone", {"instance-type": [type_]})
        offers = offers or {offer["Location"] for offer in found}
    with_trn = sorted(offers) or names
    without = [name for name in names if name not in offers] or names
    return Zones(main=with_trn[-1], second=with_trn[0], other=without[0])


def _network(backends: Backends, zones: Zones, seeds: Seeds) -> Any:
    ec2 = backends.ec2
    vpc = ec2.create_vpc(_NETWORK)
    for attribute in ("enable_dns_support", "enable_dns_hostnames"):
        ec2.modify_vpc_attribute(vpc.id, attribute, "true")
    gateway = ec2.create_internet_gateway()
    ec2.attach_internet_gateway(gateway.id, vpc.id)
    public = ec2.create_route_table(vpc.id)
    ec2.create_route(public.id, "0.0.0.0/0", gateway_id=gateway.id)
    private = ec2.create_route_table(vpc.id)

    number = 0

    def subnet(name: str, zone: str, table: Any, *, is_public: bool = False) -> None:
        nonlocal number
        _subnet(backends, vpc, name, f"10.0.{16 * number}.0/20", zone, is_public=is_public)
        ec2.associate_route_table(table.id, subnet_id=name)
        number += 1

    subnet(fixed.PUBLIC_SUBNET, zones.main, public, is_public=True)
    address = ec2.allocate_address("vpc")
    nat = ec2.create_nat_gateway(fixed.PUBLIC_SUBNET, address.allocation_id)
    ec2.create_route(private.id, "0.0.0.0/0", nat_gateway_id=nat.id)
    subnet(fixed.PRIVATE_SUBNET, zones.main, private)
    subnet(fixed.OTHER_ZONE_SUBNET, zones.other, private)
    subnet(fixed.SECOND_PRIVATE_SUBNET, zones.main, private)
    subnet(fixed.SECOND_ZONE_SUBNET, zones.second, private)
    known = {each.id for each in ec2.describe_subnets()}
    for name in seeds.public_subnets:
        if name not in known:
            subnet(name, zones.main, public, is_public=True)
    for name in seeds.private_subnets:
        if name not in known and name not in seeds.public_subnets:
            subnet(name, zones.main, private)
    return vpc


def _subnet(backends: Backends, vpc: Any, name: str, block: str, zone: str, *, is_public: bool) -> None:
    """A subnet with a given id, which no API of moto's takes: it is filed anew under that id."""
    ec2 = backends.ec2
    made = ec2.create_subnet(vpc.id, block, availability_zone=zone)
    made.map_public_ip_on_launch = is_public
    old = made.id
    ec2.subnets[zone][name] = ec2.subnets[zone].pop(old)
    made.id = name
    for acl in ec2.network_acls.values():
        for association in acl.associations:
            if association.subnet_id == old:
                association.subnet_id = name


def _buckets(backends: Backends, seeds: Seeds) -> None:
    for name in {*fixed.BUCKETS, *seeds.buckets}:
        backends.s3.create_bucket(name, backends.region)
    for bucket, key, content in objects():
        if bucket not in backends.s3.buckets:
            backends.s3.create_bucket(bucket, backends.region)
        backends.s3.put_object(bucket, key, content).set_acl(get_canned_acl("public-read"))
    # pcluster's own bucket, with the mark that it is set up: else pcluster puts a bucket policy that denies plain
    # HTTP, and moto, which does not read the condition, denies everything from then on.
    digest = hashlib.sha256(f"{ACCOUNT}{backends.region}".encode()).hexdigest()[:16]
    name = f"parallelcluster-{digest}-v1-do-not-delete"
    backends.s3.create_bucket(name, backends.region)
    backends.s3.put_bucket_versioning(name, "Enabled")
    mark = {"bootstrapped_features": ["basic", "export-logs"]}
    backends.s3.put_object(name, "parallelcluster/.bootstrapped", json.dumps(mark).encode())


def _file_systems(backends: Backends, vpc: Any, seeds: Seeds) -> None:
    for name in dict.fromkeys((fixed.LUSTRE, *seeds.lustre)):
        properties = {
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": "2.15",
            "StorageCapacity": 1200,
            "SubnetIds": [fixed.PRIVATE_SUBNET],
            "SecurityGroupIds": [_open_group(backends, vpc, f"lustre-{name}", _LUSTRE_PORT)],
            "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
            "Tags": [{"Key": "Name", "Value": "shared"}],
        }
        create_file_system(backends, properties, file_system_id=name)
    for name in dict.fromkeys((fixed.EFS, *seeds.efs)):
        _efs(backends, vpc, name)


def _efs(backends: Backends, vpc: Any, name: str) -> None:
    """An EFS with a given id and a mount target in each zone of the network."""
    efs = backends.efs
    made = efs.create_file_system(
        creation_token=name,
        performance_mode="generalPurpose",
        encrypted=True,
        kms_key_id=None,
        throughput_mode="elastic",
        provisioned_throughput_in_mibps=0,
        availability_zone_name=None,
        backup=False,
        tags=[],
    )
    efs.file_systems_by_id[name] = efs.file_systems_by_id.pop(made.file_system_id)
    made.file_system_arn = made.file_system_arn.replace(made.file_system_id, name)
    made.file_system_id = name
    group = _open_group(backends, vpc, f"efs-{name}", _NFS_PORT)
    zones: set[str] = set()
    for subnet in (fixed.PRIVATE_SUBNET, fixed.OTHER_ZONE_SUBNET, fixed.SECOND_ZONE_SUBNET):
        zone = backends.ec2.get_subnet(subnet).availability_zone
        if zone not in zones:
            efs.create_mount_target(name, subnet, security_groups=[group])
            zones.add(zone)


def _open_group(backends: Backends, vpc: Any, name: str, port: int) -> str:
    """A security group that lets the whole network reach `port`."""
    group = backends.ec2.create_security_group(name, f"Port {port} from the network", vpc_id=vpc.id)
    backends.ec2.authorize_security_group_ingress(group.id, "tcp", str(port), str(port), [{"CidrIp": _NETWORK}])
    return str(group.id)

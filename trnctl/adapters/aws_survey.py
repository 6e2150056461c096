"""What a cluster file names in an account, through botocore: every question side by side, twelve calls at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from trnctl.adapters import aws_records as records
from trnctl.adapters.aws_calls import NoSuchThing
from trnctl.adapters.aws_clients import Clients
from trnctl.adapters.aws_network import DNS_ATTRIBUTES, subnet_of, ways_out
from trnctl.errors import CloudError
from trnctl.ports.account import KeyPair, Subnet
from trnctl.ports.cloud import FileSystem
from trnctl.ports.survey import Image, ReservedCapacity, SecurityGroup, Survey, Wanted

MOST_CALLS = 12
_VERSION_TAG, _OS_TAG, _STATUS_TAG = "parallelcluster:version", "parallelcluster:os", "parallelcluster:build_status"


def survey(clients: Clients, wanted: Wanted) -> Survey:
    """Ask all that is wanted; see `ports.Account.survey`. Who may do what is asked last, and only where that stays
    within MOST_CALLS."""
    return _Asking(clients, wanted).run()


class _Asking:
    """One survey: its questions, how often AWS was asked, and what AWS refused."""

    def __init__(self, clients: Clients, wanted: Wanted) -> None:
        self._clients, self._wanted = clients, wanted
        self._refused: dict[str, str] = {}
        self._asked: list[str] = []  # appended to by several threads, which a list allows

    def run(self) -> Survey:
        """First what depends on nothing, then what the subnets' answers ask for."""
        wanted = self._wanted
        for service in ("ec2", "fsx"):
            self._clients.client(service)  # clients are made by one thread
        for service, needed in (("service-quotas", wanted.quotas), ("sts", wanted.actions), ("iam", wanted.actions)):
            if needed:
                self._clients.client(service)
        with ThreadPoolExecutor(max_workers=8) as pool:
            network = pool.submit(self._ask, "subnets", self._subnets, {})
            zones = pool.submit(self._ask, "offerings", self._zones, {})
            groups = pool.submit(self._ask, "security groups", self._groups, {})
            keys = pool.submit(self._ask, "key pair", self._keys, {})
            reserved = pool.submit(self._ask, "reservations", self._reservations, {})
            images = pool.submit(self._ask, "images", self._images, {})
            quotas = pool.submit(self._ask, "quotas", self._quotas, {})
            kept = pool.submit(self._ask, "file systems", self._kept, ())
            found = network.result()
            vpcs = {subnet.vpc for subnet in found.values()}
            dns = {vpc: pool.submit(self._ask, "DNS", self._dns, None, vpc) for vpc in vpcs}
            endpoints = self._endpoints_soon(pool, found)
            made = Survey(
                subnets=found,
                zones=zones.result(),
                dns={vpc: answer for vpc, future in dns.items() if (answer := future.result()) is not None},
                endpoints=endpoints.result() if endpoints else {},
                security_groups=groups.result(),
                keys=keys.result(),
                reservations=reserved.result(),
                images=images.result(),
                quotas=quotas.result(),
                kept=tuple(kept.result()),
            )
        denied = self._ask("permissions", self._denied, ())
        return replace(made, denied=tuple(denied), refused=dict(self._refused), calls=len(self._asked))

    def _ask(self, about: str, question: Callable[..., Any], otherwise: Any, *words: object) -> Any:
        """One question; what AWS refuses is noted, and the survey goes on."""
        try:
            return question(*words)
        except CloudError as error:
            self._refused[about] = error.message
            return otherwise

    def _pages(self, service: str, operation: str, key: str, **parameters: object) -> list[dict[str, Any]]:
        self._asked.append(operation)
        return self._clients.pages(service, operation, key, **parameters)

    def _call(self, service: str, operation: str, **parameters: object) -> dict[str, Any]:
        self._asked.append(operation)
        return self._clients.call(service, operation, **parameters)

    # ---------------------------------------------------------------------------------------------- network

    def _subnets(self) -> dict[str, Subnet]:
        """By filter, so that one that is not there does not hide the others."""
        names = [{"Name": "subnet-id", "Values": list(self._wanted.subnets)}]
        found = self._pages("ec2", "describe_subnets", "Subnets", Filters=names)
        vpcs = [{"Name": "vpc-id", "Values": sorted({item["VpcId"] for item in found})}]
        tables = self._pages("ec2", "describe_route_tables", "RouteTables", Filters=vpcs) if found else []
        out = ways_out(found, tables)
        return {item["SubnetId"]: subnet_of(item, out[item["SubnetId"]]) for item in found}

    def _dns(self, vpc: str) -> bool:
        def on(attribute: str, key: str) -> bool:
            answer = self._call("ec2", "describe_vpc_attribute", VpcId=vpc, Attribute=attribute)
            return bool(answer[key]["Value"])

        return all(on(*names) for names in DNS_ATTRIBUTES)

    def _endpoints_soon(
        self, pool: ThreadPoolExecutor, subnets: Mapping[str, Subnet]
    ) -> Future[dict[str, frozenset[str]]] | None:
        isolated = sorted({subnet.vpc for subnet in subnets.values() if subnet.way_out == "none"})
        return pool.submit(self._ask, "endpoints", self._endpoints, {}, isolated) if isolated else None

    def _endpoints(self, vpcs: list[str]) -> dict[str, frozenset[str]]:
        where = [{"Name": "vpc-id", "Values": vpcs}]
        found = self._pages("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=where)
        services = [(item["VpcId"], item["ServiceName"].rpartition(".")[2]) for item in found]
        return {vpc: frozenset(name for its, name in services if its == vpc) for vpc in vpcs}

    def _groups(self) -> dict[str, SecurityGroup]:
        if not self._wanted.security_groups:
            return {}
        names = [{"Name": "group-id", "Values": list(self._wanted.security_groups)}]
        found = self._pages("ec2", "describe_security_groups", "SecurityGroups", Filters=names)
        return {item["GroupId"]: _group_of(item) for item in found}

    # --------------------------------------------------------------------------------- capacity, keys, images

    def _zones(self) -> dict[str, tuple[str, ...]]:
        types = list(self._wanted.instance_types)
        if not types:
            return {}
        found = self._pages(
            "ec2",
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": types}],
        )
        return {
            name: tuple(sorted(item["Location"] for item in found if item["InstanceType"] == name)) for name in types
        }

    def _keys(self) -> dict[str, KeyPair]:
        if not self._wanted.key:
            return {}
        where = [{"Name": "key-name", "Values": [self._wanted.key]}]
        found = self._pages("ec2", "describe_key_pairs", "KeyPairs", Filters=where)
        return {item["KeyName"]: KeyPair(item["KeyName"], item.get("KeyType", "rsa")) for item in found}

    def _reservations(self) -> dict[str, ReservedCapacity]:
        if not self._wanted.reservations:
            return {}
        found = self._pages("ec2", "describe_capacity_reservations", "CapacityReservations")
        ours = [item for item in found if item["CapacityReservationId"] in self._wanted.reservations]
        return {item["CapacityReservationId"]: _reservation_of(item) for item in ours}

    def _images(self) -> dict[str, Image]:
        if not self._wanted.images:
            return {}
        names = [{"Name": "image-id", "Values": list(self._wanted.images)}]
        return {
            item["ImageId"]: _image_of(item) for item in self._pages("ec2", "describe_images", "Images", Filters=names)
        }

    def _quotas(self) -> dict[str, float]:
        found = {}
        for code in self._wanted.quotas:
            answer = self._call("service-quotas", "get_service_quota", ServiceCode="ec2", QuotaCode=code)
            found[code] = float(answer["Quota"]["Value"])
        return found

    def _kept(self) -> list[FileSystem]:
        found = records.tagged(self._pages("fsx", "describe_file_systems", "FileSystems"), self._wanted.cluster)
        return [records.lustre_of(item) for item in found if item.get("FileSystemType", "LUSTRE") == "LUSTRE"]

    # ------------------------------------------------------------------------------------------- permissions

    def _denied(self) -> list[str]:
        """The actions that the caller may not do, by IAM's simulation. The account's own root may do everything."""
        if not self._wanted.actions:
            return []
        if len(self._asked) + 2 > MOST_CALLS:
            raise CloudError("not asked, to stay within the number of calls", remedy="Run trnctl doctor --policy.")
        arn = _principal(str(self._call("sts", "get_caller_identity")["Arn"]))
        if arn.endswith(":root"):
            return []
        try:
            answer = self._call(
                "iam", "simulate_principal_policy", PolicySourceArn=arn, ActionNames=list(self._wanted.actions)
            )
        except NoSuchThing as error:
            raise CloudError(f"{arn} cannot be simulated", remedy="Run trnctl doctor --policy.") from error
        results = answer.get("EvaluationResults", [])
        return [item["EvalActionName"] for item in results if item["EvalDecision"] != "allowed"]


def _principal(arn: str) -> str:
    """IAM simulates roles and users, not the sessions of roles."""
    if ":assumed-role/" not in arn:
        return arn
    head, _, rest = arn.partition(":assumed-role/")
    return f"{head.replace(':sts:', ':iam:')}:role/{rest.partition('/')[0]}"


def _group_of(item: Mapping[str, Any]) -> SecurityGroup:
    def itself(rules: list[dict[str, Any]]) -> bool:
        return any(
            rule.get("IpProtocol") == "-1"
            and any(pair.get("GroupId") == item["GroupId"] for pair in rule.get("UserIdGroupPairs", []))
            for rule in rules
        )

    return SecurityGroup(
        item["GroupId"], itself(item.get("IpPermissions", [])), itself(item.get("IpPermissionsEgress", []))
    )


def _reservation_of(item: Mapping[str, Any]) -> ReservedCapacity:
    return ReservedCapacity(
        id=item["CapacityReservationId"],
        instance_type=item["InstanceType"],
        zone=item.get("AvailabilityZone", ""),
        total=item["TotalInstanceCount"],
        platform=item.get("InstancePlatform", ""),
        state=item.get("State", ""),
        block=item.get("ReservationType") == "capacity-block",
        ends=records.utc(item["EndDate"]) if item.get("EndDate") else None,
    )


def _image_of(item: Mapping[str, Any]) -> Image:
    tags = records.tags_of(item)
    root = item.get("RootDeviceName")
    sizes = [
        one.get("Ebs", {}).get("VolumeSize", 0)
        for one in item.get("BlockDeviceMappings", [])
        if one.get("DeviceName") == root
    ]
    return Image(
        item["ImageId"],
        version=tags.get(_VERSION_TAG, ""),
        os=tags.get(_OS_TAG, ""),
        built=_STATUS_TAG in tags,
        root_gib=int(sizes[0]) if sizes else 0,
    )

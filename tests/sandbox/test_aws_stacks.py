"""The stack engine over a small cluster: creation, failure, rollback, update, fleet and deletion."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.aws_account import World, names, running, small_cluster, until
from trnctl.sandbox.aws.seeds import CAPACITY_BLOCK, PRIVATE_SUBNET
from trnctl.sandbox.ports import HeadNodeBoot, NodeInstance, NodeWish, Refusal

WISH = NodeWish("q-dy-i1-1", "q", "i1", "trn1.32xlarge", PRIVATE_SUBNET)


def wishes(count: int) -> list[NodeWish]:
    return [NodeWish(f"q-dy-i1-{n}", "q", "i1", "trn1.32xlarge", PRIVATE_SUBNET) for n in range(1, count + 1)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running(tmp_path_factory.mktemp("account")) as world:
        yield world


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    """The module's account, with its stacks, faults and recordings gone after each test."""
    yield shared
    shared.control("DELETE", "/_sandbox/faults")
    machines = shared.machines
    machines.fails, machines.breaks, machines.on_boot = "", False, lambda boot: None
    for stack in shared.client("cloudformation").describe_stacks()["Stacks"]:
        if "ParentId" not in stack:
            shared.settled(stack["StackName"])
            shared.delete(stack["StackName"])
    machines.told.clear()
    machines.boots.clear()
    machines.configs.clear()


def fleet(world: World, cluster: str) -> str:
    item = world.client("dynamodb").get_item(TableName=f"parallelcluster-{cluster}", Key={"Id": {"S": "COMPUTE_FLEET"}})
    return str(item["Item"]["Data"]["M"]["status"]["S"])


def ask_fleet(world: World, cluster: str, status: str) -> None:
    world.client("dynamodb").put_item(
        TableName=f"parallelcluster-{cluster}",
        Item={"Id": {"S": "COMPUTE_FLEET"}, "Data": {"M": {"status": {"S": status}}}},
    )


def _size(config: Any) -> Any:
    """How many nodes a configuration asks for."""
    return config["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]["MaxCount"]


# ------------------------------------------------------------------------------------------ create


def test_a_cluster_is_complete_only_when_its_head_node_has_booted(world: World) -> None:
    seen: list[str] = []
    world.machines.on_boot = lambda boot: seen.append(world.status("a1"))

    assert world.create("a1", small_cluster(world, "a1")) == "CREATE_COMPLETE"

    assert seen == ["CREATE_IN_PROGRESS"]
    assert fleet(world, "a1") == "RUNNING"
    boot = world.machines.boots[0]
    (head,) = world.instances("a1")
    assert (boot.instance_id, boot.public_ip, boot.private_ip) == (
        head["InstanceId"], head["PublicIpAddress"], head["PrivateIpAddress"],
    )  # fmt: skip
    (made,) = [
        each["FileSystemId"]
        for each in world.client("fsx").describe_file_systems()["FileSystems"]
        if {"Key": "parallelcluster:cluster-name", "Value": "a1"} in each["Tags"]
    ]
    assert boot.file_systems == {"/fsx": made}


def test_the_boot_carries_the_uploaded_configuration_without_empty_settings(world: World) -> None:
    world.create("a2", small_cluster(world, "a2", nodes=7))

    config = world.machines.boots[0].config
    assert config["Scheduling"] == {"SlurmQueues": [{"Name": "q", "ComputeResources": [{"Name": "i1", "MaxCount": 7}]}]}


def test_each_resource_is_seen_in_progress_and_then_complete(world: World) -> None:
    template = small_cluster(world, "a3")
    world.create("a3", template)

    events = world.events("a3")
    assert sorted(names(events, "CREATE_COMPLETE")) == sorted([*template["Resources"], "a3"])
    assert names(events, "CREATE_COMPLETE")[-1] == "a3"
    order = [name for name, status, _ in events if status == "CREATE_COMPLETE"]
    assert order.index("FSX") < order.index("HeadNodeLaunchTemplate") < order.index("HeadNode")
    assert events[0] == ("a3", "CREATE_IN_PROGRESS", "User Initiated")


def test_what_a_stack_makes_carries_the_tags_of_the_cluster(world: World) -> None:
    world.create("a4", small_cluster(world, "a4"))

    resources = world.client("resourcegroupstaggingapi").get_resources(
        TagFilters=[{"Key": "parallelcluster:cluster-name", "Values": ["a4"]}]
    )["ResourceTagMappingList"]
    kinds = {resource["ResourceARN"].split(":")[2] for resource in resources}
    assert kinds >= {"ec2", "cloudformation", "dynamodb", "fsx", "logs"}


def test_a_head_node_that_cannot_boot_rolls_the_stack_back_with_its_reason(world: World) -> None:
    world.machines.fails = "sshd is not installed"

    assert world.create("b1", small_cluster(world, "b1")) == "ROLLBACK_COMPLETE"

    failed = [(name, reason) for name, status, reason in world.events("b1") if status == "CREATE_FAILED"]
    ((name, reason),) = failed
    assert name.startswith("HeadNodeWaitCondition")
    assert reason.startswith("WaitCondition received failed message: 'sshd is not installed' for uniqueId: i-")
    assert world.instances("b1") == []
    assert (
        world.machines.told[-2:] == [("boot", "b1"), ("shut down", "b1")] or ("shut down", "b1") in world.machines.told
    )


def test_a_machine_that_breaks_fails_the_stack_instead_of_hanging_it(world: World) -> None:
    world.machines.breaks = True

    assert world.create("b2", small_cluster(world, "b2")) == "ROLLBACK_COMPLETE"

    assert any("no space left on the device" in reason for _, _, reason in world.events("b2"))
    assert "no space left on the device" in (world.home / "log" / "account.log").read_text()


def test_a_head_node_that_stays_silent_has_cloudformations_words(world: World) -> None:
    world.fault(kind="boot", cluster="b3")

    world.create("b3", small_cluster(world, "b3"))

    reasons = [reason for _, status, reason in world.events("b3") if status == "CREATE_FAILED"]
    assert reasons == ["WaitCondition timed out. Received 0 conditions when expecting 1"]
    assert ("boot", "b3") not in world.machines.told


def test_a_resource_that_fails_cancels_those_in_progress(world: World) -> None:
    world.fault(kind="resource", type="AWS::FSx::FileSystem", reason="The maximum storage is reached.")

    assert world.create("b4", small_cluster(world, "b4")) == "ROLLBACK_COMPLETE"

    failed = {name: reason for name, status, reason in world.events("b4") if status == "CREATE_FAILED"}
    assert failed.pop("FSX") == "The maximum storage is reached."
    assert set(failed.values()) == {"Resource creation cancelled"}
    stack_reason = next(reason for name, status, reason in world.events("b4") if status == "ROLLBACK_IN_PROGRESS")
    assert stack_reason.startswith("The following resource(s) failed to create: [FSX, ")
    assert stack_reason.endswith("]. Rollback requested by user.")


def test_a_failed_stack_stays_when_rollback_is_off(world: World) -> None:
    world.fault(kind="boot", reason="Failed to run chef recipe")

    status = world.create("b5", small_cluster(world, "b5"), DisableRollback=True)

    assert status == "CREATE_FAILED"
    assert len(world.instances("b5")) == 1


def test_a_type_that_is_not_emulated_says_so(world: World) -> None:
    status = world.create("b6", {"Resources": {"Odd": {"Type": "AWS::Braket::Queue", "Properties": {}}}})

    assert status == "ROLLBACK_COMPLETE"
    assert "does not emulate resources of type AWS::Braket::Queue" in world.events("b6")[2][2]


def test_a_wait_condition_that_nobody_signals_times_out(world: World) -> None:
    template = {
        "Resources": {
            "Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
            "Wait": {"Type": "AWS::CloudFormation::WaitCondition", "Properties": {"Handle": {"Ref": "Handle"}}},
        }
    }
    assert world.create("b7", template) == "ROLLBACK_COMPLETE"


# ------------------------------------------------------------------------------------------ update


def test_an_update_reconfigures_the_machines_and_keeps_the_head_node(world: World) -> None:
    world.create("c1", small_cluster(world, "c1", nodes=4))
    before = world.instances("c1")

    assert world.update("c1", small_cluster(world, "c1", nodes=9)) == "UPDATE_COMPLETE"

    assert _size(world.machines.configs[-1]) == 9
    assert [each["InstanceId"] for each in world.instances("c1")] == [each["InstanceId"] for each in before]
    assert world.machines.told.count(("boot", "c1")) == 1
    assert any(name.startswith("HeadNodeWaitCondition") for name in names(world.events("c1"), "DELETE_COMPLETE"))


def test_an_update_that_the_head_node_refuses_goes_back(world: World) -> None:
    world.create("c2", small_cluster(world, "c2", nodes=4))
    world.machines.fails = "slurmctld would not start"

    assert world.update("c2", small_cluster(world, "c2", nodes=9)) == "UPDATE_ROLLBACK_COMPLETE"

    sizes = [_size(config) for config in world.machines.configs]
    assert sizes == [9, 4]
    assert world.update("c2", small_cluster(world, "c2", nodes=9)) == "UPDATE_COMPLETE"


def test_a_stack_in_progress_cannot_be_updated(world: World) -> None:
    world.create("c3", small_cluster(world, "c3"), wait=False)

    with pytest.raises(ClientError, match="can not be updated"):
        world.client("cloudformation").update_stack(StackName="c3", TemplateBody='{"Resources": {}}')
    world.settled("c3")


# ------------------------------------------------------------------------------------------ fleet and nodes


def test_the_fleet_stops_and_starts_as_asked(world: World) -> None:
    world.create("d1", small_cluster(world, "d1"))
    world.emulator.account.launch("d1", wishes(2))

    ask_fleet(world, "d1", "STOP_REQUESTED")
    until(lambda: fleet(world, "d1") == "STOPPED")

    assert ("stop fleet", "d1") in world.machines.told
    assert len(world.instances("d1")) == 1
    ask_fleet(world, "d1", "START_REQUESTED")
    until(lambda: fleet(world, "d1") == "RUNNING")
    assert world.machines.told[-1] == ("start fleet", "d1")


def test_compute_nodes_look_as_parallelcluster_launches_them(world: World) -> None:
    world.create("d2", small_cluster(world, "d2"))

    (node,) = world.emulator.account.launch("d2", [WISH])

    assert isinstance(node, NodeInstance)
    (instance,) = [each for each in world.instances("d2") if each["InstanceId"] == node.instance_id]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags["parallelcluster:node-type"] == "Compute"
    assert (tags["parallelcluster:queue-name"], tags["parallelcluster:compute-resource-name"]) == ("q", "i1")
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["PrivateIpAddress"] == node.private_ip
    assert instance["Placement"]["AvailabilityZone"] == "us-west-2d"
    volumes = world.client("ec2").describe_volumes(
        Filters=[{"Name": "tag:parallelcluster:node-type", "Values": ["Compute"]}]
    )["Volumes"]
    assert [volume["Size"] for volume in volumes] == [512]


def test_a_node_that_lives_is_not_launched_twice(world: World) -> None:
    world.create("d3", small_cluster(world, "d3"))

    first = world.emulator.account.launch("d3", [WISH])

    assert world.emulator.account.launch("d3", [WISH]) == first
    world.emulator.account.terminate("d3", [WISH.name, "q-dy-i1-77"])
    assert world.emulator.account.launch("d3", [WISH]) != first


def test_a_zone_without_the_type_refuses(world: World) -> None:
    world.create("d4", small_cluster(world, "d4"))

    (answer,) = world.emulator.account.launch(
        "d4", [NodeWish("n", "q", "i1", "trn1.32xlarge", "subnet-0aa11bb22cc33dd43")]
    )

    assert isinstance(answer, Refusal)
    assert answer.code == "Unsupported"
    assert "us-west-2b, us-west-2d" in answer.message


def test_a_launch_fault_refuses_the_whole_request_once(world: World) -> None:
    world.create("d5", small_cluster(world, "d5"))
    world.fault(kind="launch", instance_type="trn1.*")

    answers = world.emulator.account.launch("d5", wishes(2))

    assert [type(answer) for answer in answers] == [Refusal, Refusal]
    assert "sufficient trn1.32xlarge capacity in the Availability Zone you requested (us-west-2d)" in str(answers[0])
    assert isinstance(world.emulator.account.launch("d5", [WISH])[0], NodeInstance)


def test_capacity_that_is_left_is_used_and_comes_back(world: World) -> None:
    world.create("d6", small_cluster(world, "d6"))
    world.fault(kind="launch", capacity=2)

    answers = world.emulator.account.launch("d6", wishes(3))
    assert [type(answer) for answer in answers] == [NodeInstance, NodeInstance, Refusal]

    world.emulator.account.terminate("d6", ["q-dy-i1-1"])
    assert isinstance(world.emulator.account.launch("d6", [wishes(3)[2]])[0], NodeInstance)


def test_a_reservation_gives_no_more_than_it_holds(world: World) -> None:
    world.create("d7", small_cluster(world, "d7"))

    answers = world.emulator.account.launch("d7", wishes(5))

    assert [type(answer) for answer in answers].count(NodeInstance) == 4
    assert isinstance(answers[-1], Refusal)
    assert answers[-1].code == "ReservationCapacityExceeded"
    (block,) = world.client("ec2").describe_capacity_reservations(CapacityReservationIds=[CAPACITY_BLOCK])[
        "CapacityReservations"
    ]
    assert (block["AvailableInstanceCount"], block["ReservationType"]) == (0, "capacity-block")
    world.emulator.account.terminate("d7", [wish.name for wish in wishes(4)])


# ------------------------------------------------------------------------------------------ delete


def test_a_deleted_cluster_leaves_nothing_but_its_log_group(world: World) -> None:
    world.create("e1", small_cluster(world, "e1"))
    world.emulator.account.launch("e1", [WISH])
    world.emulator.account.terminate("e1", [WISH.name])
    made = world.machines.boots[0].file_systems["/fsx"]

    world.delete("e1")

    left = world.client("resourcegroupstaggingapi").get_resources(
        TagFilters=[{"Key": "parallelcluster:cluster-name", "Values": ["e1"]}]
    )["ResourceTagMappingList"]
    assert {each["ResourceARN"].split(":")[2] for each in left if "instance/" not in each["ResourceARN"]} == {"logs"}
    assert world.instances("e1") == []
    until(lambda: ("delete file system", made) in world.machines.told)
    assert ("shut down", "e1") in world.machines.told
    skipped = names(world.events("e1"), "DELETE_SKIPPED")
    assert skipped == ["LogGroup"]


def test_a_retained_file_system_stays_and_keeps_its_tag_until_it_is_deleted_by_hand(world: World) -> None:
    world.create("e2", small_cluster(world, "e2", fsx="Retain"))
    made = world.machines.boots[0].file_systems["/fsx"]

    world.delete("e2")

    client = world.client("fsx")
    (kept,) = client.describe_file_systems(FileSystemIds=[made])["FileSystems"]
    assert {"Key": "parallelcluster:cluster-name", "Value": "e2"} in kept["Tags"]
    assert ("delete file system", made) not in world.machines.told
    client.delete_file_system(FileSystemId=made)
    until(lambda: ("delete file system", made) in world.machines.told)


def test_a_resource_that_will_not_go_can_be_deleted_again(world: World) -> None:
    world.create("e3", small_cluster(world, "e3"))
    world.fault(kind="resource", op="DELETE", logical_id="FSX", reason="it is in use")

    world.delete("e3")

    assert world.status("e3") == "DELETE_FAILED"
    assert ("FSX", "DELETE_FAILED", "it is in use") in world.events("e3")
    world.delete("e3")
    assert world.status("e3") == ""


def test_a_file_system_deleted_by_hand_does_not_stop_its_stack(world: World) -> None:
    world.create("e4", small_cluster(world, "e4"))
    world.client("fsx").delete_file_system(FileSystemId=world.machines.boots[0].file_systems["/fsx"])

    world.delete("e4")

    assert world.status("e4") == ""


def test_deleting_a_cluster_that_boots_waits_for_the_boot_and_ends_it(world: World) -> None:
    booting = threading.Event()
    go_on = threading.Event()

    def slowly(boot: HeadNodeBoot) -> None:
        booting.set()
        go_on.wait(10)

    world.machines.on_boot = slowly
    world.create("e5", small_cluster(world, "e5"), wait=False)
    assert booting.wait(10)
    world.client("cloudformation").delete_stack(StackName="e5")
    go_on.set()

    until(lambda: world.status("e5") == "")
    assert world.machines.told.index(("boot", "e5")) < world.machines.told.index(("shut down", "e5"))
    assert world.instances("e5") == []

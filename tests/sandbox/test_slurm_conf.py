"""slurm.conf and node names from the ParallelCluster YAML: pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sandbox.machines_fakes import config, queue, resource
from trnctl.sandbox.machines.addresses import Address
from trnctl.sandbox.machines.names import Scheduling, compress, expand, login_user, scheduling
from trnctl.sandbox.machines.slurm_conf import Site, ignored_settings, node_conf, slurm_conf
from trnctl.sandbox.ports import BootFailed

SITE = Site(
    folder=Path("/h/clusters/c"),
    runtime=Path("/tmp/trnctl-x/1"),  # noqa: S108 - a path in a text
    user="me",
    address=Address("box", "127.0.0.1", bound=True),
    controller_port=12001,
    ports={},
)


def conf(read: Scheduling, site: Site = SITE, *, active: bool = True, first_port: int = 13000) -> str:
    ports = {name: first_port + index for index, name in enumerate(read.nodes())}
    return slurm_conf(read, replace(site, ports=ports), active=active)


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def setting(text: str, name: str) -> str:
    (found,) = [line.partition("=")[2] for line in text.splitlines() if line.partition("=")[0].lower() == name.lower()]
    return found


def test_nodes_are_named_and_described_as_parallelcluster_does() -> None:
    read = scheduling(config([queue("compute1", resource("i1", 16, 2))]))
    static, dynamic = lines(conf(read), "NodeName=")
    assert static == (
        "NodeName=compute1-st-i1-[1-2] NodeAddr=127.0.0.1 Port=[13000-13001] CPUs=128 RealMemory=498073 State=CLOUD"
        " Feature=static,trn1.32xlarge,i1,efa Weight=1"
    )
    assert dynamic == (
        "NodeName=compute1-dy-i1-[1-14] NodeAddr=127.0.0.1 Port=[13002-13015] CPUs=128 RealMemory=498073 State=CLOUD"
        " Feature=dynamic,trn1.32xlarge,i1,efa Weight=1000"
    )
    assert setting(conf(read), "SuspendExcNodes") == "compute1-st-i1-[1-2]"


def test_queues_become_partitions_and_the_first_is_the_default() -> None:
    queues = [
        queue("compute1", resource("i1", 4), JobExclusiveAllocation=True),
        queue("other", resource("a", 1), resource("b", 3, 1), CustomSlurmSettings={"MaxNodes": 2}),
    ]
    assert lines(conf(scheduling(config(queues))), "PartitionName=") == [
        "PartitionName=compute1 Nodes=compute1-dy-i1-[1-4] MaxTime=INFINITE State=UP Default=YES"
        " OverSubscribe=EXCLUSIVE",
        "PartitionName=other Nodes=other-dy-a-[1-1],other-st-b-[1-1],other-dy-b-[1-2] MaxTime=INFINITE State=UP"
        " MaxNodes=2",
    ]


def test_a_stopped_fleet_has_inactive_partitions() -> None:
    read = scheduling(config([queue("q", resource("r", 1))]))
    assert "State=INACTIVE" in lines(conf(read, active=False), "PartitionName=")[0]


def test_idle_time_is_the_files_unless_the_sandbox_shortens_it() -> None:
    read = scheduling(config([queue("q", resource("r", 1))], ScaledownIdletime=7))
    assert setting(conf(read), "SuspendTime") == "420"
    assert setting(conf(read, replace(SITE, idle_seconds=30)), "SuspendTime") == "30"


def test_custom_settings_replace_ours_but_not_what_the_sandbox_hangs_on() -> None:
    custom = [
        {"KillWait": 5},
        {"messagetimeout": 11},
        {"TaskProlog": "/x"},
        {"Epilog": "/y"},
        {"ResumeProgram": "/evil"},
    ]
    read = scheduling(config([queue("q", resource("r", 1))], CustomSlurmSettings=custom))
    text = conf(read)
    assert setting(text, "KillWait") == "5"
    assert setting(text, "MessageTimeout") == "11"
    assert setting(text, "TaskProlog") == "/x"
    assert setting(text, "Epilog") == "/h/clusters/c/root/opt/slurm/etc/scripts/epilog.d/*"
    assert setting(text, "ResumeProgram") == "/h/clusters/c/etc/programs/resume"
    assert ignored_settings(read, SITE) == ["Epilog", "ResumeProgram"]


def test_settings_of_a_compute_resource_go_to_its_nodes() -> None:
    read = scheduling(config([queue("q", {**resource("r", 1), "CustomSlurmSettings": {"Weight": 7}})]))
    assert lines(conf(read), "NodeName=")[0].endswith(" Weight=1000 Weight=7")


def test_threads_memory_and_types_come_from_the_yaml() -> None:
    special = {
        "Name": "r", "Instances": [{"InstanceType": "c5.4xlarge"}], "MaxCount": 1,
        "DisableSimultaneousMultithreading": True, "SchedulableMemory": 1234,
    }  # fmt: skip
    read = scheduling(config([queue("q", special)], EnableMemoryBasedScheduling=True))
    (node,) = lines(conf(read), "NodeName=")
    assert "CPUs=8 RealMemory=1234" in node
    assert "Feature=dynamic,c5.4xlarge,r " in node
    assert setting(conf(read), "SelectTypeParameters") == "CR_CPU_Memory"


def test_ports_with_a_gap_make_another_line() -> None:
    read = scheduling(config([queue("q", resource("r", 4))]))
    ports = {"q-dy-r-1": 100, "q-dy-r-2": 101, "q-dy-r-3": 200, "q-dy-r-4": 201}
    found = [line.split()[:3] for line in lines(slurm_conf(read, replace(SITE, ports=ports)), "NodeName=")]
    assert found == [
        ["NodeName=q-dy-r-[1-2]", "NodeAddr=127.0.0.1", "Port=[100-101]"],
        ["NodeName=q-dy-r-[3-4]", "NodeAddr=127.0.0.1", "Port=[200-201]"],
    ]


def test_an_address_that_cannot_be_chosen_is_not_claimed() -> None:
    read = scheduling(config([queue("q", resource("r", 1))]))
    assert "NoInAddrAny" in setting(conf(read), "CommunicationParameters")
    unknown = replace(SITE, address=Address("box", "127.0.0.1", bound=False))
    assert not lines(conf(read, unknown), "CommunicationParameters")


def test_an_ultracluster_of_1875_nodes_is_one_line() -> None:
    read = scheduling(config([queue("compute1", resource("i1", 1875))]))
    assert len(lines(conf(read), "NodeName=")) == 1
    assert len(read.nodes()) == 1875


def test_the_longest_names_leave_room_for_the_sockets_of_steps() -> None:
    node = f"{'q' * 25}-dy-{'r' * 25}-1875"
    spool = Path("/tmp/trnctl-abcdefgh/99/9999")  # noqa: S108 - a path in a text
    assert f"SlurmdSpoolDir={spool}\n" in node_conf(SITE, node, spool)
    assert len(f"{spool}/{node}_99999.4294967291") <= 107


@pytest.mark.parametrize(
    "broken",
    [{}, {"Scheduling": {"SlurmQueues": []}}, {"Scheduling": {"AwsBatchQueues": [1]}}, {"Scheduling": None}],
    ids=["nothing", "no queue", "batch", "empty"],
)
def test_a_configuration_without_slurm_queues_fails_the_boot(broken: dict[str, Any]) -> None:
    with pytest.raises(BootFailed, match="queues"):
        scheduling(broken)


def test_what_is_asked_of_ec2_for_a_node() -> None:
    read = scheduling(config([queue("q", resource("r", 4, 1), CapacityType="CAPACITY_BLOCK")]))
    found = read.resource("q-st-r-1")
    assert found is not None
    wish = found.wish("q-st-r-1")
    assert (wish.queue, wish.compute_resource, wish.instance_type) == ("q", "r", "trn1.32xlarge")
    assert (wish.subnet, wish.capacity) == ("subnet-1", "capacity-block")


@pytest.mark.parametrize("name", ["q-st-r-2", "q-dy-r-4", "q-dy-r-0", "q-dy-r-x", "q-dy-r", "other-dy-r-1"])
def test_a_node_that_is_not_configured_has_no_compute_resource(name: str) -> None:
    assert scheduling(config([queue("q", resource("r", 4, 1))])).resource(name) is None


def test_the_login_user_is_that_of_the_image() -> None:
    assert [login_user({"Image": {"Os": system}}) for system in ("ubuntu2404", "alinux2023", "rocky9")] == [
        "ubuntu",
        "ec2-user",
        "rocky",
    ]


NODES = st.lists(
    st.builds(
        lambda group, number: f"{group}-{number}",
        st.sampled_from(["q-dy-r", "q-st-r", "big-queue-dy-r2-x"]),
        st.integers(1, 2000),
    ),
    unique=True,
)


@given(NODES)
def test_a_hostlist_expands_to_the_names_it_was_made_of(names: list[str]) -> None:
    assert sorted(expand(compress(names))) == sorted(names)


def test_hostlists_as_slurm_writes_them() -> None:
    assert expand("q-dy-r-[1-3,7],q-st-r-1") == ["q-dy-r-1", "q-dy-r-2", "q-dy-r-3", "q-dy-r-7", "q-st-r-1"]
    assert compress(["q-dy-r-3", "q-dy-r-1", "q-dy-r-2", "q-st-r-9", "head"]) == "q-dy-r-[1-3],q-st-r-[9],head"
    assert compress(_nothing()) == ""


def _nothing() -> Iterable[str]:
    return iter(())

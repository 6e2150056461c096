"""What the node scripts make of a system beside its packages: hosts, limits, EFA, upgrades, the timer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.node.conftest import CLUSTER, Node, assert_failed

WITHOUT_TORCH = replace(CLUSTER, neuron_sdk="2.32.0")  # a head node without an environment to make
NAME = "compute1-dy-i1-1"
HOSTS = [
    (f"10.0.1.12 {NAME}.ultra1.pcluster {NAME}\n", f"10.0.1.12 {NAME}.ultra1.pcluster {NAME}\n"),
    (f"10.0.1.77 {NAME}.ultra1.pcluster {NAME}\n", f"10.0.1.12 {NAME}.ultra1.pcluster {NAME}\n"),
    (f"127.0.1.1\t{NAME}\n127.0.0.1 localhost\n", f"127.0.0.1 localhost\n10.0.1.12 {NAME}\n"),
    (f"127.0.0.1 localhost {NAME} # mine\n", f"127.0.0.1 localhost # mine\n10.0.1.12 {NAME}\n"),
    (f"fe80::1 {NAME}\n10.0.1.12 {NAME}\n", f"10.0.1.12 {NAME}\n"),
    # A longer name that begins alike, comments and blank lines stay as they are.
    (f"# {NAME}\n\n10.0.1.99   {NAME}0\t{NAME}0.x\n", f"# {NAME}\n\n10.0.1.99   {NAME}0\t{NAME}0.x\n"),
    ("127.0.0.1 localhost\n", "127.0.0.1 localhost\n"),
]


def test_the_hosts_line_of_the_nodes_own_name(node: Node) -> None:
    for given, expected in HOSTS:
        node.machine.write("/etc/hosts", given)
        code, output = node.install(only=("hosts",))
        assert (code, node.machine.read("/etc/hosts")) == (0, expected), output
        assert node.install(only=("hosts",))[0] == 0
        assert node.machine.read("/etc/hosts") == expected


def test_without_a_source_in_the_route_the_interface_is_asked(node: Node) -> None:
    node.machine.write("/run/routes", "default via 10.0.0.1 dev ens32\ndefault via 10.0.16.1 dev ens33 metric 600\n")
    node.machine.write("/etc/hosts", f"10.0.1.77 {NAME}\n")
    assert node.install(only=("hosts",))[0] == 0
    assert node.machine.read("/etc/hosts") == f"10.0.1.12 {NAME}\n"


def test_open_files(node: Node) -> None:
    assert node.install(only=("limits",))[0] == 0
    assert node.machine.read("/etc/security/limits.d/01_efa.conf") == (
        "# of EFA's installer\n* soft nofile 65536\n* hard nofile 131072\n"
    )
    files = sorted(node.machine.run("ls", "/etc/security/limits.d")[1].split())
    assert files[-1] == "99-trnctl.conf"  # the last word
    assert "* hard nofile 65536" in node.machine.read("/etc/security/limits.d/99-trnctl.conf")


def test_upgrades_leave_the_kernel_alone(node: Node) -> None:
    assert node.install("head", spec=WITHOUT_TORCH)[0] == 0
    _, config = node.machine.run("apt-config", "dump", "Unattended-Upgrade::Package-Blacklist")
    assert '"linux-"' in config
    assert node.machine.run("apt-mark", "hold", "aws-neuronx-tools")[1].strip().endswith("already set on hold.")
    told = node.machine.read("/run/systemctl.log").splitlines()
    assert told[0] == "stop apt-daily.timer apt-daily-upgrade.timer"
    assert told[-1] == "start apt-daily.timer apt-daily-upgrade.timer"


def test_the_timer_runs_what_is_put_there(node: Node) -> None:
    assert node.install("head", only=("hooks",))[0] == 0
    assert "enable --now trnctl.timer" in node.machine.read("/run/systemctl.log")
    for folder in ("prolog.d", "epilog.d"):
        assert node.machine.exists(f"/opt/slurm/etc/scripts/{folder}")
    assert node.machine.run("/opt/trnctl/bin/timer") == (0, "")  # with nothing to do
    node.machine.write("/opt/trnctl/timer.d/1-fails", "#!/bin/sh\nexit 3\n", "755")
    node.machine.write("/opt/trnctl/timer.d/2-works", "#!/bin/sh\ntouch /run/worked\n", "755")
    node.machine.write("/opt/trnctl/timer.d/3-notes", "not a program\n")
    code, output = node.machine.run("/opt/trnctl/bin/timer")
    assert (code, output) == (0, "trnctl: /opt/trnctl/timer.d/1-fails ended with status 3\n")
    assert node.machine.exists("/run/worked")


@pytest.mark.slow
def test_systemd_accepts_the_units(node: Node) -> None:
    assert node.install("head", only=("hooks",))[0] == 0
    units = [f"/etc/systemd/system/trnctl.{kind}" for kind in ("service", "timer")]
    code, output = node.machine.run("systemd-analyze", "verify", *units)
    if code == 127:
        pytest.skip("systemd is not installed here")
    assert [line for line in output.splitlines() if "trnctl" in line] == []


@pytest.mark.parametrize(("adapters", "words"), [("7\n", "of 8 adapters"), ("", "fi_info finds 0")])
def test_adapters_that_are_not_there(node: Node, adapters: str, words: str) -> None:
    node.machine.write("/run/adapters", adapters)
    assert_failed(node.install(only=("efa",)), "efa", words)


def test_efa_software_that_is_not_there(node: Node) -> None:
    node.machine.run("rm", "-r", "/opt/amazon/efa/bin/fi_info")
    assert_failed(node.install(only=("efa",)), "efa", "EFA's software is not in the image")

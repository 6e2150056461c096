"""The texts of ssh's and sshd's configuration, and the keys: what OpenSSH itself makes of them."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trnctl.sandbox.lifecycle import missing_tools
from trnctl.sandbox.machines import ssh
from trnctl.sandbox.machines.slurm import tool

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(missing_tools()), reason=f"missing on this machine: {', '.join(missing_tools())}"),
]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("ssh") / "keys"
    ssh.make_keys(folder)
    ssh.make_privilege_folder()
    yield folder
    ssh.remove_privilege_folder()


def resolved(config: Path, host: str) -> dict[str, str]:
    """What ssh would do for a host."""
    said = subprocess.run(
        ["ssh", "-G", "-F", str(config), host], capture_output=True, text=True, timeout=10, check=True
    ).stdout
    return dict(line.split(" ", 1) for line in said.splitlines() if " " in line)


def test_keys_are_for_their_owner_only_and_are_kept(keys: Path) -> None:
    before = (keys / "client").read_bytes()
    ssh.make_keys(keys)
    assert (keys / "client").read_bytes() == before
    assert stat.S_IMODE((keys / "client").stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700


def test_both_addresses_of_a_head_lead_to_its_port_with_our_keys_only(keys: Path, tmp_path: Path) -> None:
    heads = [ssh.Head("one", ("198.51.100.7", "10.0.0.9"), 4001), ssh.Head("two", ("10.0.0.10",), 4002)]
    (tmp_path / "config").write_text(ssh.client_config(keys, heads))
    ports = {ip: resolved(tmp_path / "config", ip)["port"] for ip in ("198.51.100.7", "10.0.0.9", "10.0.0.10")}
    assert ports == {"198.51.100.7": "4001", "10.0.0.9": "4001", "10.0.0.10": "4002"}
    found = resolved(tmp_path / "config", "198.51.100.7")
    assert found["hostname"] == "127.0.0.1"
    assert found["identityfile"] == str(keys / "client")
    assert found["identitiesonly"] == "yes"
    assert found["batchmode"] == "yes"
    assert found["stricthostkeychecking"] == "true"
    assert found["userknownhostsfile"] == str(keys / "known_hosts")


def test_an_address_of_no_head_leads_nowhere_near_us(keys: Path, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(ssh.client_config(keys, [ssh.Head("one", ("198.51.100.7",), 4001)]))
    assert resolved(tmp_path / "config", "198.51.100.8")["hostname"] == "198.51.100.8"


def test_nodes_are_reached_by_a_program(keys: Path, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(ssh.hop_config(keys, ["q-st-r", "q-dy-r"], Path("/x/reach")))
    assert resolved(tmp_path / "config", "q-dy-r-12")["proxycommand"] == "/x/reach %n"
    assert "proxycommand" not in resolved(tmp_path / "config", "elsewhere")


@pytest.mark.parametrize(("shadow", "pam"), [("", "no"), ("*", "no"), ("$y$x", "no"), ("!", "yes"), ("!*", "yes")])
def test_sshd_takes_keys_only_and_leaves_locked_accounts_to_pam(
    keys: Path, tmp_path: Path, shadow: str, pam: str
) -> None:
    environment = {"HOME": "/h", "PATH": "/h/bin:/usr/bin"}
    (tmp_path / "sshd").write_text(ssh.sshd_config(keys, environment, port=4003, shadow=shadow))
    said = subprocess.run(
        [tool("sshd"), "-T", "-f", str(tmp_path / "sshd")], capture_output=True, text=True, timeout=10, check=True
    ).stdout.splitlines()
    assert "listenaddress 127.0.0.1:4003" in said
    assert "passwordauthentication no" in said
    assert "kbdinteractiveauthentication no" in said
    assert f"usepam {pam}" in said
    assert {"setenv HOME=/h", "setenv PATH=/h/bin:/usr/bin"} <= set(said)


def test_the_password_field_is_read_where_it_may_be() -> None:
    if os.geteuid() == 0:
        line = next(line for line in Path("/etc/shadow").read_text().splitlines() if line.startswith("root:"))
        assert ssh.own_shadow() == line.split(":")[1]
    else:
        assert ssh.own_shadow() == ""

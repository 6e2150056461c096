"""The node scripts, run by real bash, apt, dpkg and pip on a machine of their own."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.node.conftest import CLUSTER, COMPILER, NXD, STAND_INS, TORCH, Node, assert_failed
from tests.node.stand_ins import KERNEL
from trnctl.render.node import node_script
from trnctl.specs.cluster import ComputeResource, Queue
from trnctl.specs.node_steps import steps_of

ENVIRONMENT = "/opt/aws_neuronx_venv_pytorch_2_9"


def test_a_compute_node_gets_exactly_the_release(node: Node) -> None:
    code, output = node.install()
    assert code == 0, output
    assert node.versions() == {
        "aws-neuronx-dkms": "installed 2.29.0.0",
        "aws-neuronx-runtime-lib": "installed 2.33.10.0-8a56eb0d9",
        "aws-neuronx-collectives": "installed 2.33.10.0-5a1ccc6d4",
        "aws-neuronx-tools": "installed 2.31.15.0",
        f"linux-headers-{KERNEL}": "installed 6.8.0-1021.23",
    }
    assert node.machine.read("/sys/module/neuron/version") == "2.29.0.0\n"
    assert [f"step {step.name}: done" in output for step in steps_of("compute")] == [True] * len(steps_of("compute"))
    held = node.machine.run("apt-mark", "showhold")[1].split()
    assert {"aws-neuronx-dkms", "aws-neuronx-tools"} <= set(held)
    log = node.machine.read("/var/log/trnctl-node.log")
    assert "Unpacking aws-neuronx-tools" in log
    assert "Unpacking" not in output  # ParallelCluster's log gets our own lines only


def test_twice_is_once(node: Node) -> None:
    assert node.install()[0] == 0
    before = node.everything()
    code, output = node.install()
    assert (code, node.everything()) == (0, before), output
    log = node.machine.read("/var/log/trnctl-node.log").rpartition("step start: done")[2]
    assert "Unpacking" not in log
    assert "Packages [" not in log  # no list is read again, so that no repository is needed


def test_a_head_node_makes_the_environment_once(node: Node) -> None:
    code, output = node.install("head")
    assert code == 0, output
    assert "aws-neuronx-dkms" not in node.versions()  # a c5 has no Neuron device
    found = node.machine.run(f"{ENVIRONMENT}/bin/python", "-m", "pip", "list", "--format=freeze")[1]
    for line in (f"neuronx-cc=={COMPILER}", f"torch-neuronx=={TORCH}", f"neuronx_distributed=={NXD}", "torch==2.9.1"):
        assert line in found
    made = node.machine.run("stat", "-c", "%i %Y", f"{ENVIRONMENT}/complete")[1]
    began = time.monotonic()
    assert node.install("head")[0] == 0
    assert time.monotonic() - began < 10  # nothing is built again
    assert node.machine.run("stat", "-c", "%i %Y", f"{ENVIRONMENT}/complete")[1] == made


def test_the_environment_is_found_by_compute_nodes_at_the_place_that_recipes_name(node: Node) -> None:
    spec = replace(CLUSTER, storage=())
    assert node.install(spec=spec, only=("environment",))[0] == 0
    _, place = node.machine.run("readlink", ENVIRONMENT)
    assert place.startswith("/home/ubuntu/trnctl/environments/neuron-2.31.1-")
    node.machine.run("rm", ENVIRONMENT)
    node.machine.write(f"{ENVIRONMENT}/bin/activate", "# the image's own\n")
    code, output = node.install(spec=spec, only=("environment",))
    assert code == 0
    assert "stays in its place" in output
    assert node.machine.read(f"{ENVIRONMENT}/bin/activate") == "# the image's own\n"


# ------------------------------------------------------------------------------------------- interruptions


def test_a_power_cut_in_the_middle_of_dpkg(node: Node) -> None:
    node.machine.write("/run/hold", "")
    running = node.machine.start(node.put())
    node.machine.wait_for("/run/held")
    node.machine.power_cut()
    running.communicate(timeout=10)
    assert node.versions()["aws-neuronx-tools"].split()[0] != "installed"
    node.machine.run("rm", "/run/hold")
    code, output = node.install()
    assert code == 0, output
    assert node.versions()["aws-neuronx-tools"] == "installed 2.31.15.0"


@pytest.mark.slow
def test_a_power_cut_while_the_environment_is_made(node: Node) -> None:
    running = node.machine.start(node.put("head"))
    node.machine.wait_for("/home/ubuntu/trnctl/environments/*/bin/python3")
    node.machine.power_cut()
    running.communicate(timeout=10)
    assert not node.machine.exists(f"{ENVIRONMENT}/complete")
    code, output = node.install("head")
    assert code == 0, output
    assert node.machine.exists(f"{ENVIRONMENT}/complete")


def test_two_at_once_take_turns(node: Node) -> None:
    node.machine.write("/run/hold", "")
    first = node.machine.start(node.put())
    node.machine.wait_for("/run/held")
    second = node.machine.start("/compute.sh")
    node.machine.run("rm", "/run/hold")
    outputs = [process.communicate(timeout=60)[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert "are there already" in outputs[1]


# --------------------------------------------------------------------------------------------------- locks

# Holds apt's or dpkg's lock as they do (fcntl, not flock) for some seconds.
_HOLD = """
import fcntl, sys, time
lock = open(sys.argv[1], "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
open("/run/locked", "w").close()
time.sleep(float(sys.argv[2]))
"""
LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock", "/var/lib/dpkg/lock")


def hold(node: Node, lock: str, seconds: float) -> subprocess.Popen[str]:
    process = node.machine.start("python3", "-c", _HOLD, lock, str(seconds))
    node.machine.wait_for("/run/locked")
    return process


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_is_waited_for(node: Node, lock: str) -> None:
    holder = hold(node, lock, 3)
    code, output = node.install()
    assert code == 0, output
    assert holder.communicate(timeout=10)[0] == ""
    assert node.versions()["aws-neuronx-tools"] == "installed 2.31.15.0"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_that_is_never_released(node: Node, lock: str) -> None:
    holder = hold(node, lock, 60)
    began = time.monotonic()
    outcome = node.install(supply=replace(STAND_INS, lock_s=2))
    assert time.monotonic() - began < 15
    assert_failed(outcome, "lock", "trnctl image build")
    if "apt/lists" not in lock:
        assert "by process" in outcome[1] or "process with pid" in outcome[1]
    node.machine.power_cut()
    holder.communicate(timeout=10)
    assert node.install()[0] == 0  # nothing is broken by the refusal


def test_what_hangs_ends_within_the_budget(node: Node) -> None:
    node.machine.write("/run/hold", "")
    began = time.monotonic()
    assert_failed(node.install(supply=replace(STAND_INS, budget_s=4)), "time")
    assert time.monotonic() - began < 20
    node.machine.run("rm", "/run/hold")
    node.machine.power_cut()
    assert node.install()[0] == 0


# ------------------------------------------------------------------------------------ what may be missing


def test_a_plain_user_is_refused(node: Node, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        node.put()
        outcome = node.machine.run("/compute.sh", user="65534:65534")
    else:  # whoever runs the tests is one
        script = tmp_path / "compute.sh"
        script.write_text(node_script(CLUSTER, "compute", STAND_INS))
        done = subprocess.run(["bash", str(script)], capture_output=True, text=True, timeout=20, check=False)
        outcome = (done.returncode, done.stderr)
    assert_failed(outcome, "start", "not root")
    assert node.versions() == {}


def test_another_system_than_the_file_says(node: Node) -> None:
    node.machine.write("/etc/os-release", "ID=ubuntu\nVERSION_CODENAME=jammy\n")
    assert_failed(node.install(), "start", "ubuntu jammy")


def test_a_repository_that_has_nothing_for_the_release(node: Node) -> None:
    assert_failed(
        node.install(supply=replace(STAND_INS, apt_repository="file:/stand-ins/focal")),
        "repository", "has nothing for Ubuntu's noble",
    )  # fmt: skip
    assert not node.machine.exists("/etc/apt/sources.list.d/trnctl-neuron.list")
    assert node.install()[0] == 0


def test_a_repository_that_cannot_be_reached(node: Node) -> None:
    assert_failed(
        node.install(supply=replace(STAND_INS, apt_key="file:///stand-ins/none.asc")),
        "repository", "its key could not be fetched",
    )  # fmt: skip


def test_a_repository_without_the_right_signature(node: Node) -> None:
    if not node.signed:
        pytest.skip("gpg, which signs the stand-in repository, is not installed")
    assert_failed(node.install(supply=replace(STAND_INS, apt_repository="file:/stand-ins/unsigned")), "repository")
    assert "aws-neuronx-tools" not in node.versions()


def test_somebody_elses_broken_repository_does_not_matter(node: Node) -> None:
    node.machine.write("/etc/apt/sources.list.d/other.list", "deb [trusted=yes] file:/stand-ins/nowhere noble main\n")
    code, output = node.install()
    assert code == 0, output
    assert "not Neuron's" in output


def test_no_headers_of_the_running_kernel(node: Node) -> None:
    node.machine.write("/etc/apt/sources.list", "deb [trusted=yes] file:/stand-ins/empty noble main\n")
    assert_failed(node.install(), "headers", f"kernel {KERNEL} runs", f"linux-headers-{KERNEL}")


def test_headers_of_the_image_are_enough(node: Node) -> None:
    node.machine.write("/etc/apt/sources.list", "deb [trusted=yes] file:/stand-ins/empty noble main\n")
    node.machine.write(f"/lib/modules/{KERNEL}/build/Makefile", "all:\n")
    code, output = node.install()
    assert code == 0, output


def test_a_driver_that_does_not_build(node: Node) -> None:
    node.machine.write("/run/build-fails", "")
    assert_failed(node.install(), "driver", f"no module was built for kernel {KERNEL}")


def test_a_device_that_is_not_there(node: Node) -> None:
    node.machine.write("/run/devices", "15\n")
    assert_failed(node.install(), "driver", "of 16 Neuron devices 15 are there", "Replace the node")


def test_the_images_older_driver_is_replaced(node: Node) -> None:
    node.machine.write("/sys/module/neuron/version", "2.21.0.0\n")
    assert node.install()[0] == 0
    assert node.machine.read("/run/modprobe.log").splitlines() == ["-r neuron", "neuron"]
    assert node.machine.read("/sys/module/neuron/version") == "2.29.0.0\n"


def test_a_release_that_the_repository_does_not_have(node: Node) -> None:
    assert_failed(
        node.install(spec=replace(CLUSTER, neuron_sdk="2.31.0")),
        "packages", "no aws-neuronx-tools 2.31.13.0; it has: 2.32.28.0, 2.31.15.0",
    )  # fmt: skip


def test_another_release_replaces_the_packages(node: Node) -> None:
    assert node.install(spec=replace(CLUSTER, neuron_sdk="2.32.0"))[0] == 0
    assert node.versions()["aws-neuronx-dkms"] == "installed 2.30.2.0"
    code, output = node.install()
    assert code == 0, output
    assert node.versions()["aws-neuronx-dkms"] == "installed 2.29.0.0"
    assert node.versions()["aws-neuronx-runtime-lib"] == "installed 2.33.10.0-8a56eb0d9"


def test_a_node_without_accelerators(node: Node) -> None:
    node.machine.write("/sys/devices/virtual/dmi/id/product_name", "c5.4xlarge\n")
    node.machine.write("/run/adapters", "")
    spec = replace(CLUSTER, queues=(*CLUSTER.queues, Queue("cpu", (ComputeResource("c1", "c5.4xlarge"),))))
    code, output = node.install(spec=spec)
    assert code == 0, output
    assert "needs no driver" in output
    assert "no EFA is expected on c5.4xlarge" in output


@pytest.mark.parametrize(
    ("stand_in", "words"),
    [
        ('case "$*" in *version_info*) echo 3.8 ;; *) exit 1 ;; esac', "python3 is 3.8"),
        ('case "$*" in *version_info*) echo 3.12 ;; *venv*) echo No space left on device; exit 1 ;; esac', "status 1"),
    ],
)
def test_a_python_that_does_not_do(node: Node, stand_in: str, words: str) -> None:
    node.machine.write("/usr/local/sbin/python3", f"#!/bin/sh\n{stand_in}\n", "755")
    assert_failed(node.install("head", only=("environment",)), "environment", words)


def test_what_ubuntu_keeps_apart_from_its_python_is_installed(node: Node) -> None:
    words = "*version_info*) echo 3.12 ;; *ensurepip*) [ -e /opt/ensurepip ] ;; *) exit 3"
    node.machine.write("/usr/local/sbin/python3", f'#!/bin/sh\ncase "$*" in {words} ;; esac\n', "755")
    assert_failed(node.install("head", only=("repository", "environment")), "environment", "status 3")
    assert node.versions()["python3-venv"] == "installed 3.12.3-0"


def test_only_the_real_packages_do_not_those_of_the_same_names(node: Node) -> None:
    outcome = node.install(
        "head", only=("environment",), supply=replace(STAND_INS, pip_repository="file:///stand-ins/nowhere")
    )
    assert_failed(outcome, "environment", "No matching distribution found for neuronx-cc==2.26.6360.0")
    assert not node.machine.exists(f"{ENVIRONMENT}/complete")

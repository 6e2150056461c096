"""Which operating system, SDK, instance type and PyTorch go together."""

from __future__ import annotations

import re

import pytest

from trnctl.specs.sdk import DEFAULT, ROWS, nearest, nearest_sure, pairing, row

TRN1 = ("trn1.32xlarge", "c5.4xlarge")


def said(system: str, sdk: str, *types: str, xla: bool = False, native: bool = False) -> list[tuple[str, str]]:
    return [(f.code, f.level) for f in pairing(system, sdk, types, torch_xla=xla, torch_native=native)]


def test_the_rows_are_dated_newest_first() -> None:
    assert [one.version for one in ROWS] == sorted((one.version for one in ROWS), reverse=True)
    assert [one.date for one in ROWS] == sorted((one.date for one in ROWS), reverse=True)
    assert {one.version.rpartition(".")[0] for one in ROWS} == {"2.28", "2.29", "2.30", "2.31", "2.32", "2.33"}


@pytest.mark.parametrize("one", ROWS, ids=lambda one: one.version)
def test_a_version_is_whole_or_none(one: object) -> None:
    for name in ("driver", "runtime", "collectives", "tools", "compiler", "torch_xla", "nxd"):
        version = getattr(one, name)
        assert version is None or re.fullmatch(r"\d+(\.\d+){2,6}(\.\*)?", version), name


def test_what_is_not_established_has_no_versions() -> None:
    assert [one.version for one in ROWS if not one.packaged] == ["2.33.1", "2.28.1"]
    assert all(one.doubt for one in ROWS if not one.packaged)
    assert [one.version for one in ROWS if one.torch_xla is None] == ["2.33.1", "2.32.0", "2.29.0", "2.28.1"]


def test_only_the_tools_changed_in_2_31_1() -> None:
    old, new = row("2.31.0"), row("2.31.1")
    assert old is not None
    assert new is not None
    assert (old.tools, new.tools) == ("2.31.13.0", "2.31.15.0")
    assert (old.driver, old.runtime, old.compiler, old.torch_xla) == (
        new.driver, new.runtime, new.compiler, new.torch_xla,
    )  # fmt: skip


def test_the_default_pair_works() -> None:
    assert said("ubuntu2404", DEFAULT, *TRN1, xla=True) == []


@pytest.mark.parametrize(
    ("system", "sdk", "code", "instead"),
    [
        ("alinux2023", "2.31.1", "os-no-torch-xla", 'os: ubuntu2404`: it goes with `neuron_sdk: "2.31.1"'),
        ("alinux2023", "2.29.1", "os-no-torch-xla", "os: ubuntu2404"),
        ("ubuntu2204", "2.31.1", "sdk-os-mismatch", "os: ubuntu2404"),
        ("ubuntu2004", "2.31.1", "sdk-os-mismatch", "os: ubuntu2404"),
        ("rhel9", "2.31.1", "sdk-os-mismatch", "os: ubuntu2404"),
        ("ubuntu2404", "2.32.0", "sdk-no-torch-xla", 'neuron_sdk: "2.31.1"` with `os: ubuntu2404'),
        ("alinux2023", "2.32.0", "sdk-no-torch-xla", 'neuron_sdk: "2.31.1"` with `os: ubuntu2404'),
        ("ubuntu2404", "2.31", "unknown-value", '"2.31.1"'),
    ],
)
def test_a_pair_that_cannot_work_names_the_one_that_can(system: str, sdk: str, code: str, instead: str) -> None:
    (found,) = pairing(system, sdk, TRN1, torch_xla=True)
    assert (found.code, found.level) == (code, "error")
    assert instead in found.remedy


@pytest.mark.parametrize("one", ROWS, ids=lambda one: one.version)
@pytest.mark.parametrize("system", ["ubuntu2404", "ubuntu2204", "ubuntu2004", "alinux2023", "rhel9"])
@pytest.mark.parametrize("native", [False, True])
def test_the_pair_that_is_proposed_is_no_error_itself(one: object, system: str, native: bool) -> None:
    version = str(getattr(one, "version", ""))
    for finding in pairing(system, version, ["trn2.48xlarge"], torch_xla=not native, torch_native=native):
        better_os = re.search(r"os: (\w+)", finding.remedy)
        better_sdk = re.search(r'neuron_sdk: "([\d.]+)"', finding.remedy)
        os_, sdk = better_os[1] if better_os else system, better_sdk[1] if better_sdk else version
        again = pairing(os_, sdk, ["trn2.48xlarge"], torch_xla=not native, torch_native=native)
        # The only beta cannot be had without its doubt; and a second fault of the pair may show after the first.
        assert [f.code for f in again if f.level == "error" and f.code == finding.code] == []
        assert (os_, sdk) != (system, version) or finding.remedy.startswith("Try it")


@pytest.mark.parametrize("sdk", ["2.33.0", "2.33.1"])
def test_what_is_listed_again_is_unproven(sdk: str) -> None:
    (found,) = pairing("ubuntu2404", sdk, TRN1, torch_xla=True)
    assert (found.code, found.level) == ("sdk-unproven", "warning")
    assert 'neuron_sdk: "2.31.1"' in found.remedy


def test_without_pytorch_2_33_0_is_in_no_doubt() -> None:
    assert said("ubuntu2404", "2.33.0", "trn2.48xlarge") == []
    assert said("alinux2023", "2.32.0", "trn1.32xlarge") == []  # JAX


def test_an_old_release_on_the_system_that_ended_with_the_next_is_unproven() -> None:
    assert said("ubuntu2204", "2.29.1", *TRN1, xla=True) == [("sdk-unproven", "warning")]


def test_torchneuron_is_for_the_second_generation() -> None:
    assert said("ubuntu2404", "2.33.0", "trn2u.48xlarge", native=True) == [("sdk-unproven", "warning")]
    assert ("sdk-device-mismatch", "error") in said("ubuntu2404", "2.33.0", "trn1n.32xlarge", native=True)
    assert said("ubuntu2404", "2.31.1", "trn2.48xlarge", native=True) == [("sdk-no-torch-native", "error")]


@pytest.mark.parametrize(
    ("version", "near"),
    [("2.31", "2.31.1"), ("2.31.9", "2.31.1"), ("2.27.0", "2.28.0"), ("2.28", "2.28.1"), ("2.99.0", "2.33.0"),
     ("latest", "2.33.1"), ("2", "2.33.1")],
)  # fmt: skip
def test_the_nearest_by_number(version: str, near: str) -> None:
    assert nearest(version).version == near


def test_the_nearest_that_is_sure_has_all_packages() -> None:
    doubtful = row("2.28.1")
    assert doubtful is not None
    assert nearest_sure(doubtful).version in {"2.28.0", "2.29.0"}

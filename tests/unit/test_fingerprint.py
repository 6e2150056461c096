"""What makes the fingerprint of a run's graphs another one, what does not, and where the graphs lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.recipes import TRN1, layout, recipe
from trnctl.plan.compile_cache import cache_place, sharing
from trnctl.plan.fingerprint import cache_dir, chip, compiler_flags, fingerprint, retrying
from trnctl.plan.layout import Layout
from trnctl.specs.workload import Batch, Scaling, WorkloadSpec


def key(
    *, nodes: int = 4, scaling: Scaling = "strong", workload: WorkloadSpec | None = None, spread: Layout | None = None,
    sdk: str = "2.31.1", instance_type: str = TRN1, **wishes: Any,
) -> str:  # fmt: skip
    spec = workload or recipe()
    wishes = {"arguments": {}, "environment": {}, **wishes}
    spread = spread or layout(nodes, scaling, workload=spec)
    return fingerprint(spec, spread, sdk=sdk, instance_type=instance_type, **wishes).key


def batch(micro: int, accumulation: int) -> WorkloadSpec:
    return replace(recipe(), batch=Batch(micro * accumulation * 32, micro, accumulation, 128))


@pytest.mark.parametrize(
    "same",
    [
        {"arguments": {"lr": "0.1"}},
        {"arguments": {"steps_this_run": "7", "max_steps": 9, "warmup_steps": 1, "seed": 3}},
        {"scaling": "weak"},  # another accumulation, and several all the same
        {"environment": {"FI_LOG_LEVEL": "warn", "NEURON_RT_LOG_LEVEL": "INFO", "HF_TOKEN": "secret"}},
        {"environment": {"NEURON_CC_FLAGS": "--cache_dir /x --dump=y --log_level 3"}},
        {"instance_type": "trn1n.32xlarge"},
        {"workload": replace(recipe(), title="Another", published=(), steps=5)},
    ],
)
def test_what_leaves_the_graphs_alone(same: dict[str, Any]) -> None:
    assert key(**same) == key()


OTHERS: list[dict[str, Any]] = [
    {},
    {"nodes": 1},
    {"nodes": 16},
    {"sdk": "2.30.0"},
    {"instance_type": "trn2.48xlarge"},
    {"workload": batch(8, 64)},
    {"workload": replace(recipe(), batch=replace(recipe().batch, sequence=512))},
    {"workload": replace(recipe(), script="another.py")},
    {"workload": replace(recipe(), source=replace(recipe().source, commit="0" * 40))},
    {"spread": replace(layout(4), accumulation=1)},
    {"spread": replace(layout(4), tensor=8)},
    {"arguments": {"optimizer": "LAMB"}},
    {"arguments": {"debug": True}},
    {"environment": {"XLA_USE_BF16": "1"}},
    {"environment": {"NEURON_RT_STOCHASTIC_ROUNDING_EN": "0"}},
    {"environment": {"NEURON_CC_FLAGS": "-O1"}},
    {"environment": {"MY_WIDTH": "2"}},
]


def test_what_makes_other_graphs() -> None:
    keys = [key(**other) for other in OTHERS]
    assert len(set(keys)) == len(keys)
    assert all(len(one) == 12 and int(one, 16) >= 0 for one in keys)


def test_the_facts_hold_no_value_of_a_users_variable() -> None:
    made = fingerprint(
        recipe(), layout(4), sdk="2.31.1", instance_type=TRN1, arguments={}, environment={"MY_KEY": "hunter2"}
    )
    assert "hunter2" not in str(made.facts)
    assert "MY_KEY" in str(made.facts)


def test_the_wrappers_own_options_are_not_the_compilers() -> None:
    text = "--model-type=transformer --cache_dir=/x --retry_failed_compilation -O1 --dump /d --no_cache"
    assert compiler_flags(text) == ["--model-type=transformer", "-O1"]
    assert compiler_flags("'open") == ["'open"]
    assert (cache_dir(text), cache_dir("--cache_dir /y"), cache_dir("-O1"), cache_dir("--cache_dir")) == (
        "/x", "/y", "", "",
    )  # fmt: skip
    assert retrying("-O1") == "-O1 --retry_failed_compilation"
    assert retrying("--retry_failed_compilation") == "--retry_failed_compilation"
    assert retrying("") == "--retry_failed_compilation"


@pytest.mark.parametrize(("instance_type", "family"), [("trn1n.32xlarge", "trn1"), ("trn2u.48xlarge", "trn2")])
def test_a_chip_has_one_name(instance_type: str, family: str) -> None:
    assert chip(instance_type) == family


def place(environment: dict[str, str] | None = None, **wishes: str) -> tuple[str, bool]:
    asked = {"mount": "/fsx", "instance_type": TRN1, "sdk": "2.31.1", **wishes}
    made = cache_place(**asked, recipe={}, environment=environment or {})
    return made.url, made.shared


def test_chips_and_releases_are_kept_apart_and_a_named_cache_wins() -> None:
    assert place() == ("/fsx/trnctl/cache/trn1/2.31.1", True)
    assert place(instance_type="trn2.48xlarge", sdk="2.30.0")[0] == "/fsx/trnctl/cache/trn2/2.30.0"
    url = {"NEURON_COMPILE_CACHE_URL": "file:///scratch/cache"}
    assert place(url)[0] == "/scratch/cache"
    assert place({**url, "NEURON_CC_FLAGS": "--cache_dir=s3://mine/c"})[0] == "s3://mine/c"


@pytest.mark.parametrize(("sdk", "shared"), [("2.31.1", True), ("2.23.0", True), ("2.22.0", False), ("2.9.1", False)])
def test_old_releases_do_not_share_a_cache(sdk: str, shared: bool) -> None:
    found, why = sharing(sdk)
    assert found is shared
    assert sdk in why

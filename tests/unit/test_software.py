"""Whether a cluster's software can run a recipe: at submit, and for the recipes that its file names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.recipes import recipe
from tests.unit.test_render_cluster import QUEUE, RESOURCE, SPEC
from trnctl.actions.submit import Facts, Wishes, plan_submit
from trnctl.actions.validate import validate
from trnctl.errors import UsageError
from trnctl.plan.software import admit_software, instead, software_findings
from trnctl.specs.cluster import ClusterFile, ClusterSpec
from trnctl.specs.workload import Software, WorkloadSpec

NOW = datetime(2026, 11, 29, tzinfo=UTC)
ON_CPU = replace(SPEC, queues=(replace(QUEUE, compute_resources=(replace(RESOURCE, instance_type="c5.4xlarge"),)),))


def codes(spec: ClusterSpec, workload: WorkloadSpec | None = None) -> list[tuple[str, str]]:
    return [(finding.code, finding.level) for finding in software_findings(spec, workload or recipe())]


def test_the_default_cluster_runs_the_recipe() -> None:
    assert codes(SPEC) == []
    admit_software(SPEC, recipe())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"os": "alinux2023"}, "os-no-torch-xla"),
        ({"os": "ubuntu2204"}, "sdk-os-mismatch"),
        ({"neuron_sdk": "2.32.0"}, "sdk-no-torch-xla"),
    ],
)
def test_a_pair_that_cannot_run_it_is_refused_with_the_one_that_can(change: dict[str, str], code: str) -> None:
    spec = replace(SPEC, **change)  # type: ignore[arg-type]  # the fields that are changed are texts
    assert codes(spec) == [(code, "error")]
    with pytest.raises(UsageError, match="bert-large cannot run with this cluster's software") as caught:
        admit_software(spec, recipe())
    assert "ubuntu2404" in caught.value.remedy
    assert [finding.code for finding in caught.value.findings] == [code]


def test_an_unproven_pair_is_not_refused() -> None:
    spec = replace(SPEC, neuron_sdk="2.33.0")
    assert codes(spec) == [("sdk-unproven", "warning")]
    admit_software(spec, recipe())


def test_what_does_not_speak_xla_runs_without_it() -> None:
    jax = replace(recipe(), compile="none", software=Software())
    assert codes(replace(SPEC, os="alinux2023"), jax) == []
    assert codes(replace(SPEC, os="alinux2023"), replace(jax, stack="nxdt")) == [("os-no-torch-xla", "error")]


def test_where_it_cannot_run_anyway_its_software_is_nobodys_concern() -> None:
    assert codes(replace(ON_CPU, os="alinux2023")) == []


def test_validate_judges_the_files_own_recipes() -> None:
    warning = software_findings(replace(SPEC, neuron_sdk="2.33.0"), recipe())[0]
    file = ClusterFile("t.yaml", replace(SPEC, os="alinux2023"), {"mine": "mine.yaml"}, (warning,))
    checked = validate(lambda: file, lambda _: {"mine": recipe()}, None)
    found = [one for one in checked.findings if one.path in ("", "workloads.mine")]
    assert [(one.code, one.level, one.path) for one in found] == [
        ("os-no-torch-xla", "error", "workloads.mine"),
        ("sdk-unproven", "warning", ""),
    ]
    assert found[0].message.startswith("mine: PyTorch 2.9 for Neuron needs glibc 2.35")


def test_outside_of_what_the_recipe_was_written_for_is_a_doubt_not_a_refusal() -> None:
    narrow = replace(recipe(), software=Software("2.28.0", "2.30.0", ("ubuntu2404",)))
    (doubt,) = admit_software(SPEC, narrow)
    assert (doubt.code, doubt.level) == ("sdk-unproven", "warning")
    assert "2.28.0 to 2.30.0, and this cluster has 2.31.1" in doubt.message
    assert '"2.30.0"' in doubt.remedy
    assert admit_software(SPEC, replace(narrow, software=Software("2.28.0", "", ("ubuntu2404",)))) == []
    assert "2.31.1" in admit_software(SPEC, replace(narrow, software=Software("2.33.0")))[0].message
    (other,) = admit_software(SPEC, replace(narrow, software=Software(os=("ubuntu2604", "rhel9"))))
    assert "ubuntu2604 or rhel9" in other.message
    broken = replace(SPEC, os="alinux2023")
    assert codes(broken, narrow) == [("os-no-torch-xla", "error")], "one refusal says enough"


def test_native_torch_needs_a_release_and_a_chip_that_have_it() -> None:
    native = replace(recipe(), stack="fsdp", compile="none", ranks_per_node={"trn2.48xlarge": 64})
    on_trn2 = replace(
        SPEC, queues=(replace(QUEUE, compute_resources=(replace(RESOURCE, instance_type="trn2.48xlarge"),)),)
    )
    assert codes(on_trn2, native) == [("sdk-no-torch-native", "error")]
    assert codes(replace(on_trn2, neuron_sdk="2.33.0"), native) == [("sdk-unproven", "warning")]


def test_a_recipe_of_the_same_model_is_named_that_the_cluster_can_run() -> None:
    on_trn2 = replace(
        SPEC, queues=(replace(QUEUE, compute_resources=(replace(RESOURCE, instance_type="trn2.48xlarge"),)),)
    )
    names = ("bert-large", "llama3-8b", "llama3-8b-nxdt", "fsdp-llama3-8b", "fsdp-llama3-8b-trn2", "llama2-7b")
    known = [recipe(name) for name in names]
    assert instead(replace(on_trn2, neuron_sdk="2.33.0"), recipe("llama3-8b"), known) == ["fsdp-llama3-8b-trn2"]
    [needs] = instead(on_trn2, recipe("llama3-8b"), known)
    assert needs.startswith("fsdp-llama3-8b-trn2 (Write `neuron_sdk: ")
    assert instead(SPEC, recipe("fsdp-llama3-8b-trn2"), known) == ["llama3-8b", "llama3-8b-nxdt"]
    assert instead(SPEC, recipe("bert-large"), known) == []


def test_submit_names_it_but_not_where_the_queue_is_unknown() -> None:
    def refused(queue: str | None) -> str:
        facts = Facts(recipes=lambda: [recipe("llama3-8b")])
        with pytest.raises(UsageError) as caught:
            plan_submit(
                recipe("fsdp-llama3-8b-trn2"), SPEC, Wishes(nodes=4, queue=queue), run="r", now=NOW, facts=facts
            )
        return caught.value.remedy

    assert refused(None).endswith("; or submit a recipe of the same model: llama3-8b")
    assert "llama3-8b" not in refused("nope")

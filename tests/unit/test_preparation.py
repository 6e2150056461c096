"""What a recipe needs before its nodes start: read from its text, turned into needs, told while it is fetched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.recipes import recipe, request
from tests.unit.test_workload_loading import SMALLEST, findings
from trnctl.actions.status import current_stage
from trnctl.plan.words import of_bytes
from trnctl.ports import RunRecord
from trnctl.render.places import environment_of
from trnctl.render.prepare import needs_of, preparer
from trnctl.specs.preparation import DataSet, HubModel
from trnctl.specs.workload_loading import load_workload

COMMIT = "0123456789012345678901234567890123456789"
SOURCE = f"source: {{repository: https://example.com/me/mine.git, commit: {COMMIT}}}\n"
DATA = f"""\
data:
  - {{path: mine, source: 's3://my-bucket/mine.tar', sha256: {"a" * 64}, bytes: 12, files: 3, match: '*.bin'}}
requirements: [a==1.0, 'b[x]==2+cpu']
hub: [{{model: me/m, revision: {COMMIT}, files: [c]}}]
"""


def test_what_a_recipe_says_is_what_is_read() -> None:
    found = load_workload(SMALLEST + DATA, "mine.yaml")
    assert found.data == (DataSet("mine", "s3://my-bucket/mine.tar", True, "a" * 64, 12, 3, "*.bin"),)
    assert found.requirements == ("a==1.0", "b[x]==2+cpu")
    assert found.hub == (HubModel("me/m", COMMIT, ("c",)),)
    own = load_workload(SMALLEST.replace(SOURCE, "workdir: ../code\n"), "mine.yaml")
    assert (own.workdir, own.source.repository) == ("../code", "")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("https://example.com/me/mine.git", "https://me:token@example.com/mine.git", "secret-in-address"),
        ("https://example.com/me/mine.git", "ssh://git:word@example.com/mine.git", "secret-in-address"),
        ("script:", "workdir: code\nscript:", "source-and-workdir"),
        ("steps: 10", "steps: 10\nrequirements: [transformers]", "requirement-not-pinned"),
        ("steps: 10", "steps: 10\nrequirements: ['a>=1']", "requirement-not-pinned"),
        ("steps: 10", "steps: 10\ndata: [{path: x, source: /local/x.tar}]", "data-source"),
        ("steps: 10", "steps: 10\ndata: [{path: x, source: 'https://me:word@example.com/x'}]", "data-source"),
        ("steps: 10", "steps: 10\ndata: [{path: ../x, source: 's3://bucket/x'}]", "path-not-inside"),
        ("steps: 10", "steps: 10\ndata: [{path: /x, source: 's3://bucket/x'}]", "path-not-inside"),
        ("steps: 10", "steps: 10\ndata: [{path: x, source: 's3://bucket/x', sha256: abc}]", "checksum-format"),
        ("steps: 10", f"steps: 10\nhub: [{{model: a/b/c, revision: {COMMIT}, files: [x]}}]", "hub-model"),
        ("steps: 10", "steps: 10\nhub: [{model: a, revision: main, files: [x]}]", "commit-not-pinned"),
    ],
)
def test_a_mistake_is_told(old: str, new: str, code: str) -> None:
    assert old in SMALLEST
    (found,) = findings(SMALLEST.replace(old, new))
    assert found.code == code


@pytest.mark.parametrize("address", ["git@example.com:me/mine.git", "ssh://git@example.com/mine.git", "/srv/mine.git"])
def test_addresses_without_a_secret_are_taken(address: str) -> None:
    text = SMALLEST.replace("https://example.com/me/mine.git", f"'{address}'")
    assert load_workload(text, "mine.yaml").source.repository == address


def test_the_needs_of_bert_name_their_places_and_how_to_get_there() -> None:
    needs = {str(need.fetch["kind"]): need for need in needs_of(recipe(), request())}
    assert set(needs) == {"git", "archive", "environment", "hub"}
    assert needs["git"].path.startswith("/fsx/trnctl/src/aws-neuron-samples-41732e7f6014/torch-neuronx/training/")
    assert needs["git"].fetch["target"] == "/fsx/trnctl/src/aws-neuron-samples-41732e7f6014"
    assert needs["archive"].check == {"files": 32, "match": "*_training_*.hdf5"}
    assert needs["environment"].path.endswith("/complete")
    assert needs["hub"].path.startswith("/fsx/trnctl/hub/hub/models--bert-large-uncased/snapshots/")


def test_other_files_of_the_same_model_are_another_need() -> None:
    """Else a run would find one of its files missing on nodes that are paid for."""
    models = tuple(HubModel("me/m", COMMIT, files) for files in (("a", "b"), ("b", "a"), ("a", "b", "c")))
    paths = [need.path for need in needs_of(replace(recipe(), hub=models), request()) if need.fetch["kind"] == "hub"]
    assert paths[0] == paths[1] != paths[2]


def test_data_that_nobody_fetches_is_a_persons_to_bring() -> None:
    (need,) = [one for one in needs_of(recipe("llama2-7b"), request()) if not one.fetch]
    assert need.path == "/fsx/trnctl/data/wikicorpus_llama2_tokenized_4k"
    assert "get_dataset.py" in need.remedy


def test_an_environment_is_called_after_all_that_decides_what_is_in_it() -> None:
    own = replace(recipe(), requirements=("a==1", "b==2"))
    where = {"mount": "/fsx", "sdk": "2.31.1", "os": "ubuntu2404"}
    first = environment_of(own, **where)
    assert environment_of(replace(own, name="other", requirements=("b==2", "a==1")), **where) == first
    assert environment_of(replace(own, requirements=("a==1", "b==3")), **where) != first
    assert environment_of(own, **{**where, "sdk": "2.30.0"}) != first
    assert environment_of(replace(own, requirements=()), **where) == ""
    # The node software makes the folder of its own environment as root, and for root alone.
    assert not first.startswith("/fsx/trnctl/environments/")


def test_the_preparer_travels_whole() -> None:
    texts = {file.name: file.text for file in preparer()}
    assert "prepare/prepare.py" in texts
    imported = {
        line.split()[1]
        for text in texts.values()
        for line in text.splitlines()
        if line.startswith(("import ", "from "))
    }
    ours = {name.removeprefix("prepare/").removesuffix(".py") for name in texts}
    assert ours - {"prepare"} <= imported


@pytest.mark.parametrize(
    ("preparing", "ended", "told"),
    [
        ({"alive": True, "words": "fetches x.tar", "done": 2**30, "total": 2**32}, {},
         ("prepare", "preparing", "fetches x.tar, 1.0 of 4.0 GiB")),
        ({"alive": False}, {}, ("prepare", "held", "its preparer has died: trnctl resume r starts it again")),
        ({"alive": False}, {"prepare": {"exit_code": 1, "reason": "no room"}}, ("prepare", "failed", "no room")),
        ({"alive": False}, {"prepare": {"exit_code": 0}}, ("train", "unknown", "")),
    ],
)  # fmt: skip
def test_the_stage_that_matters(
    preparing: dict[str, object], ended: dict[str, dict[str, object]], told: tuple[str, str, str]
) -> None:
    record = RunRecord("r", "/f", {"stages": ["prepare", "train"]}, {"train": "7"}, ended=ended, preparing=preparing)
    now = current_stage(record, {})
    assert (now.stage, now.state, now.reason) == told


def test_bytes_in_words() -> None:
    assert of_bytes(None, None) == ""
    assert of_bytes(512, 2048) == ", 0.5 of 2.0 KiB"
    assert of_bytes(3 * 2**20, None) == ", 3.0 MiB"

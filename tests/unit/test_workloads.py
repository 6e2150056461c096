"""What `workloads show` and `workloads new` make of a recipe."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.recipes import recipe, recipe_text
from tests.unit.test_submit import example
from trnctl.actions.workloads import catalogue, describe, new_recipe
from trnctl.errors import UsageError
from trnctl.plan.risk import work_at_risk
from trnctl.specs.workload import Checkpoint
from trnctl.specs.workload_loading import load_workload


def test_a_description_tells_what_runs_and_where() -> None:
    seen = describe(recipe("llama3-8b"), example())
    assert (seen.instance_type, seen.layout.accumulation, seen.queues) == ("trn1.32xlarge", 256, ("compute1",))
    assert 4 in seen.legal
    assert 3 not in seen.legal
    assert seen.findings == ()
    told = json.loads(json.dumps(seen.as_json()))
    assert told["command"][:2] == ["torchrun", "tp_zero1_llama_hf_pretrain.py"]
    assert "--checkpoint_dir=RUN/checkpoints" in told["command"]
    assert told["at_risk"]["steps"] == 20
    assert told["sources"] == dict(recipe("llama3-8b").sources)


def test_a_cluster_that_cannot_run_it_is_told() -> None:
    doubtful = describe(recipe("llama3-8b-nxdt"), example())
    assert [finding.code for finding in doubtful.findings] == ["sdk-unproven"]
    assert "2.28.0 to 2.30.0" in doubtful.findings[0].message
    wrong = describe(recipe("llama3-8b"), replace(example(), os="alinux2023"))
    assert [finding.code for finding in wrong.findings] == ["os-no-torch-xla"]
    nowhere = describe(recipe("qwen3-8b-torchtitan"), example())
    assert (nowhere.queues, nowhere.filled, nowhere.as_json()["command"]) == ((), None, [])


def test_the_work_at_risk_follows_what_the_script_does() -> None:
    shards = work_at_risk(recipe())
    assert shards.words().startswith("the work since the last checkpoint, written at the end of each data shard")
    steps = work_at_risk(recipe("llama3-8b"), {"checkpoint_freq": "50"}, step_seconds=120, ground="published")
    assert (steps.steps, steps.minutes) == (50, 100)
    assert "at most 50 steps, about 100 min of training at the published rate: written every 50 steps" in steps.words()
    assert "gets back everything but the place in the data" in steps.words()
    saves = replace(recipe(), checkpoint=Checkpoint("*.pt", on_signal=True))
    assert work_at_risk(saves).words() == "nothing: the script saves when it is asked to end"
    assert "nobody knows when" in work_at_risk(replace(recipe(), checkpoint=Checkpoint("*.pt"))).words()


@pytest.mark.parametrize("source", ["bert-large", "llama3-70b", "qwen3-8b-torchtitan"])
def test_a_new_recipe_is_the_old_one_under_another_name(source: str) -> None:
    made = new_recipe("mine", recipe_text(source), source)
    assert load_workload(made, "mine.yaml") == replace(recipe(source), name="mine")
    assert made.count("#") > recipe_text(source).count("#"), "its comments stay, and it says where it comes from"
    assert f"begun as a copy of {source}" in made


def test_a_new_recipe_needs_a_name_that_works() -> None:
    with pytest.raises(UsageError, match="cannot name a recipe"):
        new_recipe("My Model", recipe_text(), "bert-large")
    with pytest.raises(UsageError, match="no line that begins with name:"):
        new_recipe("mine", recipe_text().replace("\nname: ", "\n{name: "), "odd")


def test_the_list_says_what_can_be_submitted_where() -> None:
    rows = {str(row["name"]): row for row in catalogue([recipe(), recipe("llama3.1-405b")], ["bert-large"])}
    assert rows["bert-large"]["own"] is True
    assert rows["bert-large"]["instance_types"] == ["trn1.32xlarge", "trn1n.32xlarge"]
    assert rows["llama3.1-405b"]["plan_only"]

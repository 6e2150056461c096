"""What a submit plans before anything is sent: legality, then capacity, then every file."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.fakes import World
from tests.recipes import recipe
from trnctl.actions.head_node import head_of
from trnctl.actions.submit import Facts, SubmitPlan, Wishes, plan_submit, run_name, runs_folder
from trnctl.errors import NotFoundError, RefusedError, UsageError
from trnctl.specs.cluster import ClusterSpec
from trnctl.specs.loading import load_cluster_file
from trnctl.specs.workload import FromRun

EXAMPLES = Path(__file__).parents[2] / "examples"
NOW = datetime(2026, 11, 29, 9, 0, tzinfo=UTC)


def example(name: str = "trn1-16-nodes") -> ClusterSpec:
    """A shipped example."""
    path = EXAMPLES / f"{name}.yaml"
    return load_cluster_file(path.read_text(), str(path)).cluster


def plan(
    wishes: Wishes, spec: ClusterSpec | None = None, *, run: str = "bert-large-1129-a3f", facts: Facts | None = None
) -> SubmitPlan:
    """A plan of bert-large."""
    return plan_submit(recipe(), spec or example(), wishes, run=run, now=NOW, facts=facts or Facts())


def test_the_plan_holds_all_that_will_be_written() -> None:
    made = plan(Wishes(nodes=16))
    assert made.submission.stages == ("compile", "train")
    assert made.submission.folder == "/fsx/trnctl/runs/bert-large-1129-a3f"
    assert {"run.json", "compile.sbatch", "train.sbatch"} <= {file.name for file in made.submission.files}
    assert (made.layout.accumulation, made.layout.global_batch, made.compile) == (2, 16384, "scheduled")


def test_the_mount_prefix_stands_before_every_path_on_the_head_node() -> None:
    made = plan(Wishes(nodes=1), facts=Facts("/home/me/sandbox/root", "sandbox: emulated"))
    assert made.submission.folder.startswith("/home/me/sandbox/root/fsx/trnctl/runs/")
    manifest = json.loads(next(file.text for file in made.submission.files if file.name == "run.json"))
    assert manifest["notice"] == "sandbox: emulated"


def test_without_a_compile_stage_there_is_one_job() -> None:
    made = plan(Wishes(nodes=1, compile="skip"))
    assert (made.submission.stages, made.compile) == (("train",), "skipped")


@pytest.mark.parametrize("nodes", [3, 64, 0, -1])
def test_an_illegal_count_is_refused_before_the_queue_is_looked_at(nodes: int) -> None:
    with pytest.raises(UsageError):
        plan(Wishes(nodes=nodes))


def test_a_legal_count_that_the_queue_has_not_is_refused_by_its_limit() -> None:
    with pytest.raises(RefusedError, match="at most 16"):
        plan(Wishes(nodes=32))


def test_no_count_means_the_recipes_own() -> None:
    assert plan(Wishes()).layout.nodes == recipe().nodes


def test_the_queue_is_the_named_one_else_the_first_that_fits() -> None:
    two = example("two-queues")
    names = [queue.name for queue in two.queues]
    assert plan(Wishes(nodes=1), two).queue.name == names[0]
    assert plan(Wishes(nodes=1, queue=names[1]), two).queue.name == names[1]
    with pytest.raises(UsageError, match="no queue nope") as caught:
        plan(Wishes(nodes=1, queue="nope"), two)
    assert names[0] in caught.value.remedy


def test_a_recipe_that_no_queue_can_run_is_refused() -> None:
    spec = example()
    queue = spec.queues[0]
    trn2 = replace(queue, compute_resources=(replace(queue.compute_resources[0], instance_type="trn2.48xlarge"),))
    with pytest.raises(UsageError, match=r"cannot run on trn2\.48xlarge"):
        plan(Wishes(nodes=1), replace(spec, queues=(trn2,)))


def test_a_queue_of_several_types_pins_the_one_that_was_planned_for() -> None:
    spec = example()
    queue = spec.queues[0]
    first = queue.compute_resources[0]
    both = replace(queue, compute_resources=(first, replace(first, name="i2", instance_type="trn1n.32xlarge")))
    made = plan(Wishes(nodes=1), replace(spec, queues=(both,)))
    script = next(file.text for file in made.submission.files if file.name == "train.sbatch")
    assert "--constraint=trn1.32xlarge" in script
    alone = plan(Wishes(nodes=1))
    assert all("--constraint" not in file.text for file in alone.submission.files if file.name.endswith(".sbatch"))


@pytest.mark.parametrize("run", ["Bert", "a/b", "../x", "", "a b", "-x", "a\nb", "x" * 64])
def test_a_name_that_cannot_be_a_folder_is_refused(run: str) -> None:
    with pytest.raises(UsageError, match="cannot name a run"):
        plan(Wishes(nodes=1), run=run)


def test_a_platform_that_is_only_planned_for_is_not_submitted_to() -> None:
    with pytest.raises(RefusedError, match="hyperpod"):
        plan(Wishes(nodes=1), replace(example(), platform="hyperpod"))


def test_names_of_runs_tell_the_workload_and_the_day() -> None:
    first, second = run_name("bert-large", NOW), run_name("bert-large", NOW)
    assert first.startswith("bert-large-1129-")
    assert len(first) == len("bert-large-1129-abcde")
    assert len({first, second, *(run_name("bert-large", NOW) for _ in range(8))}) > 1


def test_runs_lie_on_the_shared_file_system_or_where_one_may_be() -> None:
    assert runs_folder(example(), "/p") == "/p/fsx/trnctl/runs"
    assert runs_folder(example("smallest"), "") == "/home/ubuntu/trnctl/runs"
    assert runs_folder(None, "/p") == "/p/*/trnctl/runs:/p/*/*/trnctl/runs"


def test_a_head_node_must_be_there_and_run() -> None:
    world = World()
    with pytest.raises(NotFoundError, match="no cluster ultra1"):
        head_of("ultra1", world.services())
    world.cloud.has_cluster("ultra1", "creating")
    with pytest.raises(RefusedError, match="creating"):
        head_of("ultra1", world.services())


def test_the_head_node_is_asked_whether_the_graphs_are_cached() -> None:
    made = plan(Wishes(nodes=4))
    wish = made.submission.cache
    assert wish is not None
    assert (wish.url, wish.shared, wish.mode) == ("/fsx/trnctl/cache/trn1/2.31.1", True, "auto")
    ((name, text),) = wish.without
    without = json.loads(text)
    assert (name, without["stages"], without["fingerprint"]) == ("run.json", ["train"], wish.fingerprint)
    assert without["expected"]["compile_hours"] in {0, None}
    queue = World().queue
    assert queue.submit(made.submission).compile == "scheduled"
    queue.cached.add(wish.fingerprint)
    again = plan(Wishes(nodes=4, arguments={"lr": "0.1"}), run="second")
    answer = queue.submit(again.submission)
    assert (answer.compile, list(answer.jobs)) == ("cached", ["train"])
    assert queue.submit(plan(Wishes(nodes=4, compile="force"), run="third").submission).compile == "scheduled"


def test_a_recipe_that_cannot_start_from_a_checkpoint_is_not_told_to() -> None:
    assert plan(Wishes(nodes=4, from_run="other")).submission.from_run == "other"
    spec = replace(recipe(), checkpoint=replace(recipe().checkpoint, resume_arguments=()))
    with pytest.raises(UsageError, match="does not say how"):
        plan_submit(spec, example(), Wishes(nodes=4, from_run="other"), run="r", now=NOW, facts=Facts())


def test_a_script_that_finds_its_own_checkpoints_cannot_start_from_another_run() -> None:
    own = replace(recipe(), checkpoint=replace(recipe().checkpoint, resume_arguments=("--loading_step=latest",)))
    with pytest.raises(UsageError, match="only in the folder that it writes to") as caught:
        plan_submit(own, example(), Wishes(nodes=4, from_run="other"), run="r", now=NOW, facts=Facts())
    assert "trnctl resume other" in caught.value.remedy


def test_a_training_that_needs_the_run_before_it_is_refused_without() -> None:
    needs = FromRun(("bert-large", "bert-large-fp32"), "phase 2 goes on with phase 1's weights", "resume_ckpt_path")
    second = replace(recipe(), name="second", from_run=needs)
    with pytest.raises(UsageError, match="starts from a run of bert-large or bert-large-fp32") as caught:
        plan_submit(second, example(), Wishes(nodes=4), run="r", now=NOW, facts=Facts())
    assert "trnctl submit second --from RUN" in caught.value.remedy
    assert "--set resume_ckpt_path=" in caught.value.remedy
    by_hand = Wishes(nodes=4, arguments={"resume_ckpt_path": "/fsx/ckpt_28125.pt"})
    for wishes in (Wishes(nodes=4, from_run="bert-large-1129-a3f"), by_hand):
        made = plan_submit(second, example(), wishes, run="r", now=NOW, facts=Facts())
        assert made.submission.from_run == (wishes.from_run or "")


def test_what_is_doubtful_is_part_of_the_plan() -> None:
    doubtful = plan_submit(
        replace(recipe(), experimental="the stack is a beta"),
        replace(example(), neuron_sdk="2.33.0"),
        Wishes(nodes=4),
        run="r",
        now=NOW,
        facts=Facts(),
    )
    assert [finding.code for finding in doubtful.findings] == ["recipe-experimental", "sdk-unproven"]
    assert plan(Wishes(nodes=4)).findings == ()


def test_an_address_that_nobody_can_be_told_at_is_refused_without_its_token() -> None:
    with pytest.raises(UsageError, match=r"^ftp://… is neither") as caught:
        plan(Wishes(nodes=4, notify="ftp://host/s3cret"))
    assert "s3cret" not in f"{caught.value.message} {caught.value.remedy}"
    for target in ("https://hooks.example.com/t", "HTTP://h/x", "mail -s done me@example.com", "curl ftp://x"):
        plan(Wishes(nodes=4, notify=target))

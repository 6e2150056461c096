"""What status and runs make of one look at a cluster."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from rich.console import Console

from tests.fakes import START, World
from trnctl.actions.runs import OpenCluster, cancel, check_log, find_run, results_of
from trnctl.actions.status import ClusterStatus, current_stage, held, status, summary
from trnctl.cli.status_screens import looks, picture, risk_words
from trnctl.errors import CloudError, NotFoundError, RefusedError, ToolError, TrnctlError, UsageError
from trnctl.findings import Finding
from trnctl.plan.cost import spent
from trnctl.ports import File, Instance, Job, JobState, NodeGroup, RunRecord, Submission

FOLDER = "/fsx/trnctl/runs"
MANIFEST = {
    "workload": "bert-large",
    "nodes": 16,
    "unit": "seq/s",
    "steps": 28125,
    "stages": ["compile", "train"],
    "layout": {"global_batch": 16384},
    "log_pattern": r"\((?P<epoch>\d+), (?P<step>\d+)\) step_loss : (?P<loss>\S+) .* throughput : (?P<throughput>\S+)",
}
LINE = "LOG now - (0, 6112) step_loss : 7.1 learning_rate : 4e-4 throughput : 24100.00 "


@pytest.fixture
def world() -> World:
    """A running cluster with a run."""
    world = World(notice="sandbox: emulated")
    world.cloud.has_cluster("ultra1")
    submit(world, "bert-large-1129-a3f")
    return world


def submit(world: World, run: str) -> None:
    """Submit a run of two stages."""
    world.queue.manifests[run] = MANIFEST
    world.queue.prints[run, "train"] = [LINE]
    world.queue.submit(Submission(run, f"{FOLDER}/{run}", (File("train.sbatch", ""),), ("compile", "train")))


def opened(world: World) -> OpenCluster:
    """The cluster with its doors."""
    return OpenCluster("ultra1", "us-west-2", world.services(), FOLDER)


def look(world: World) -> ClusterStatus:
    """One look."""
    return status(opened(world))


def test_a_run_is_told_by_the_stage_that_matters(world: World) -> None:
    [run] = look(world).runs
    assert (run.stage, run.state, run.step) == ("compile", "running", None)
    world.clock.wind(61)
    [run] = look(world).runs
    assert (run.stage, run.state, run.step, run.throughput) == ("train", "running", 6112, 24100.0)
    assert run.eta_s == int((28125 - 6112) * 16384 / 24100)
    world.clock.wind(61)
    [run] = look(world).runs
    assert (run.stage, run.state, run.over) == ("train", "completed", True)


def test_a_failed_compile_is_the_runs_failure_and_not_the_cancelled_train(world: World) -> None:
    world.queue.exits["bert-large-1129-a3f", "compile"] = 70
    world.clock.wind(200)
    [run] = look(world).runs
    assert (run.stage, run.state, run.reason) == ("compile", "failed", "exit code 70")


def record(ended: dict[str, dict[str, object]], **changes: object) -> RunRecord:
    """A run whose jobs are 1 and 2."""
    made = RunRecord("r", f"{FOLDER}/r", MANIFEST, {"compile": "1", "train": "2"}, ended=ended)
    return replace(made, **changes)  # type: ignore[arg-type]  # the tests name fields of RunRecord


def job(number: str, state: JobState, reason: str = "") -> Job:
    """A job of that run."""
    return Job(number, "r", "train", state, reason, 16)


@pytest.mark.parametrize(
    ("ended", "jobs", "expected"),
    [
        ({}, [job("1", "pending", "waits for free nodes")], ("compile", "pending", "waits for free nodes")),
        ({"compile": {"exit_code": 0}}, [job("2", "running")], ("train", "running", "")),
        # Slurm has forgotten both jobs: their notes decide
        ({"compile": {"exit_code": 0}, "train": {"exit_code": 0}}, [], ("train", "completed", "")),
        ({"compile": {"exit_code": 0}, "train": {"exit_code": 9}}, [], ("train", "failed", "exit code 9")),
        (
            {"train": {"exit_code": 75, "reason": "too often"}, "compile": {"exit_code": 0}},
            [],
            ("train", "failed", "too often"),
        ),
        (
            {"compile": {"exit_code": 1, "failed_graphs": [{"graph": "MODULE_12+ab", "log": "/l"}]}},
            [job("1", "failed")],
            ("compile", "failed", "graph MODULE_12+ab did not compile"),
        ),
        (
            {"compile": {"exit_code": 70, "failed_graphs": [{"graph": "MODULE_12+ab"}, {"graph": "MODULE_13+ab"}]}},
            [],
            ("compile", "failed", "2 graphs did not compile, MODULE_12+ab the first"),
        ),
        ({"compile": {"exit_code": 143}}, [job("1", "cancelled")], ("compile", "cancelled", "exit code 143")),
        ({"compile": {"state": "node-fail", "reason": "a node died"}}, [], ("compile", "node-fail", "a node died")),
        # a job that was requeued lives, whatever its first attempt wrote
        ({"compile": {"exit_code": 0}, "train": {"exit_code": 1}}, [job("2", "running")], ("train", "running", "")),
        ({}, [], ("compile", "unknown", "")),
    ],
)
def test_the_state_of_a_run(
    ended: dict[str, dict[str, object]], jobs: list[Job], expected: tuple[str, str, str]
) -> None:
    now = current_stage(record(ended), {one.id: one for one in jobs})
    assert (now.stage, now.state, now.reason) == expected


def test_a_run_that_slurm_refused_says_so() -> None:
    now = current_stage(record({}, jobs={}, refused="invalid partition"), {})
    assert (now.stage, now.state, now.reason) == ("submit", "failed", "invalid partition")


def test_the_json_has_the_stable_keys(world: World) -> None:
    answer = json.loads(json.dumps(look(world).as_json()))
    assert set(answer) >= {"cluster", "nodes", "cost", "runs", "alerts"}
    assert set(answer["cluster"]) >= {"name", "phase", "fleet", "head_node"}
    assert set(answer["cost"]) == {"per_hour_usd", "so_far_usd", "basis", "known_from"}
    assert set(answer["runs"][0]) >= {
        "run", "workload", "stage", "state", "reason", "nodes", "elapsed_s", "step", "steps", "throughput", "eta_s",
        "jobs",
    }  # fmt: skip
    assert answer["nodes"] == {"powered-down": 16}
    assert answer["notice"] == "sandbox: emulated"


def test_money_counts_living_instances_since_their_launch() -> None:
    head = Instance("i-1", "c5.4xlarge", "running", "head", launched=START)
    node = Instance("i-2", "trn1.32xlarge", "running", "compute", launched=START + timedelta(hours=1))
    stopped = Instance("i-3", "trn1.32xlarge", "stopped", "compute", launched=START)
    cost = spent([head, node, stopped], START + timedelta(hours=2))
    assert cost.per_hour.usd == pytest.approx(22.18)
    assert cost.so_far_usd == pytest.approx(2 * 0.68 + 21.50)
    assert cost.known_from == START


def test_a_head_node_that_does_not_answer_is_an_alert_and_not_the_end(world: World) -> None:
    class Unreachable:
        def queue(self, head: Instance) -> object:
            raise ToolError("ssh: connection refused", remedy="Look at the security group.")

    here = opened(world)
    services = here.services.__class__(**{**vars(here.services), "head": Unreachable()})
    seen = status(OpenCluster("ultra1", "us-west-2", services, FOLDER))
    assert [alert.code for alert in seen.alerts] == ["head-node-unreachable"]
    assert seen.seen.stack is not None


def test_a_watch_keeps_nodes_and_runs_when_the_head_node_goes_silent_and_says_how_old_they_are(world: World) -> None:
    first = look(world)
    alert = Finding("head-node-unreachable", "error", "it does not answer", "Look at it.")
    at = first.at + timedelta(seconds=90)
    blind = replace(first, at=at, groups=(), runs=(), alerts=(alert,))
    kept = held(blind, held(replace(blind, at=first.at + timedelta(seconds=45)), first))
    assert (kept.groups, kept.runs, kept.slurm_at, kept.at) == (first.groups, first.runs, first.at, at)
    assert "nodes, runs and cost are as they were 1m30s ago" in drawn(kept)
    assert kept.as_json()["slurm_at"] == first.at.isoformat(timespec="seconds")
    assert held(first, kept).slurm_at is None
    assert held(blind, None) is blind


def test_a_watch_survives_what_a_look_meets_but_not_the_end_of_the_cluster(world: World) -> None:
    first, broken = look(world), CloudError("no way to AWS", remedy="Try again.")
    answers: list[ClusterStatus | TrnctlError] = [first, broken, first, NotFoundError("it is gone", remedy="Look.")]

    def next_look() -> ClusterStatus:
        answer = answers.pop(0)
        if isinstance(answer, TrnctlError):
            raise answer
        return answer

    watched = looks(next_look, 0)
    assert [next(watched) for _ in range(3)] == [(first, ""), (first, "no way to AWS"), (first, "")]
    with pytest.raises(NotFoundError):
        next(watched)
    answers.append(broken)
    with pytest.raises(CloudError):
        next(looks(next_look, 0))


def test_down_nodes_and_protected_mode_are_alerts(world: World) -> None:
    world.cloud.cluster("ultra1").fleet = "protected"  # type: ignore[union-attr]  # the fixture made it
    reason = "(Code:InsufficientInstanceCapacity)Failure when resuming nodes"
    world.queue.nodes = (NodeGroup("compute1", "down", 6, "compute1-dy-i1-[11-16]", reason),)
    alerts = {alert.code: alert for alert in look(world).alerts}
    assert set(alerts) == {"protected-mode", "capacity-wait"}
    assert "EC2 has no capacity for them now" in alerts["capacity-wait"].message
    assert "ten minutes after each refusal" in alerts["capacity-wait"].message
    assert "trnctl cluster fleet start" in alerts["protected-mode"].remedy


def test_a_node_in_two_partitions_is_one_node(world: World) -> None:
    world.queue.nodes = (NodeGroup("a", "idle", 16, "n-[1-16]"), NodeGroup("b", "idle", 16, "n-[1-16]"))
    assert look(world).nodes == {"idle": 16}


def test_no_such_cluster(world: World) -> None:
    with pytest.raises(NotFoundError, match="no cluster ghost"):
        status(OpenCluster("ghost", "us-west-2", world.services(), FOLDER))


def drawn(seen: ClusterStatus) -> str:
    """The screen as text, 100 columns wide."""
    out = io.StringIO()
    Console(file=out, width=100, color_system=None).print(picture(seen))
    return out.getvalue()


def test_the_screen_fits_100_columns_also_for_an_ultracluster(world: World) -> None:
    for number in range(30):
        submit(world, f"llama3-70b-pretraining-with-a-long-name-{number:03d}")
    world.queue.nodes = (
        NodeGroup("compute1", "allocated", 1800, "compute1-dy-i1-[1-1800]"),
        NodeGroup("compute1", "down", 75, "compute1-dy-i1-[1801-1875]", "Not responding " * 12),
    )
    world.clock.wind(61)
    lines = drawn(look(world)).splitlines()
    assert max(len(line) for line in lines) <= 100
    assert any("1,800 allocated" in line for line in lines)


def test_a_run_is_found_by_its_last_digits(world: World) -> None:
    submit(world, "bert-large-1130-b07")
    assert find_run(opened(world), "b07")[1].run == "bert-large-1130-b07"
    assert find_run(opened(world), "bert-large-1129-a3f")[1].run == "bert-large-1129-a3f"
    with pytest.raises(NotFoundError, match="no run zzz") as caught:
        find_run(opened(world), "zzz")
    assert "bert-large-1129-a3f" in caught.value.remedy


def test_digits_that_fit_two_runs_are_not_guessed(world: World) -> None:
    submit(world, "llama3-8b-1129-a3f")
    with pytest.raises(UsageError, match="could be"):
        find_run(opened(world), "a3f")


def test_cancel_tells_what_was_alive(world: World) -> None:
    found, jobs = cancel(opened(world), "a3f")
    assert (found.run, list(jobs)) == ("bert-large-1129-a3f", ["1", "2"])
    assert list(cancel(opened(world), "a3f")[1]) == []


def test_results_that_are_not_there_yet_say_where_to_look(world: World) -> None:
    with pytest.raises(RefusedError, match="no results yet") as caught:
        results_of(find_run(opened(world), "a3f")[1])
    assert "logs" in caught.value.remedy
    world.queue.results["bert-large-1129-a3f"] = {"final_loss": 1.4}
    assert results_of(find_run(opened(world), "a3f")[1]) == {"final_loss": 1.4}


def test_a_stack_that_failed_without_a_reason_of_its_own_gets_the_cause(world: World) -> None:
    world.cloud.happens(
        "ultra1", "HeadNode", "AWS::EC2::Instance", "CREATE_FAILED", "We currently do not have sufficient capacity"
    )
    world.cloud.move("ultra1", "create-failed", "ROLLBACK_COMPLETE", "")
    [alert] = [one for one in look(world).alerts if one.code == "stack-failed"]
    assert "no reason given" not in alert.message
    assert "capacity" in alert.message


@pytest.mark.parametrize(("stage", "node"), [("nope", None), ("prepar", None), (None, 16), ("train", 99)])
def test_a_log_that_there_is_not_is_refused(stage: str | None, node: int | None) -> None:
    record = RunRecord("r", f"{FOLDER}/r", {**MANIFEST, "nodes": 16, "stages": ["train"]})
    with pytest.raises(UsageError, match=r"r has no (stage|node)"):
        check_log(record, stage=stage, node=node)
    check_log(record, stage="prepare", node=15)
    with pytest.raises(UsageError, match="no stage compile"):
        check_log(record, stage="compile", node=None)
    check_log(replace(record, manifest={}), stage="compile", node=99)


def test_how_long_a_run_took_is_told_when_slurm_has_forgotten_it() -> None:
    ended = {"compile": {"exit_code": 0}, "train": {"exit_code": 0}}
    reached = {"time_to_train_s": 130.4, "compile_s": 12.0}
    record = RunRecord("r", f"{FOLDER}/r", MANIFEST, {"train": "2"}, ended=ended, results=reached)
    assert summary(record, {}, START).elapsed_s == 130
    job = Job("2", "r", "train", "completed", "", 16, elapsed_s=70)
    assert summary(record, {"2": job}, START).elapsed_s == 70
    assert summary(replace(record, results=None), {}, START).elapsed_s == 0


def test_the_work_at_risk_is_what_no_checkpoint_holds(world: World) -> None:
    compiled = {"compile": {"exit_code": 0}}
    record = RunRecord("r", f"{FOLDER}/r", MANIFEST, {"compile": "1", "train": "2"}, ended=compiled)
    job = Job("2", "r", "train", "running", "", 16, elapsed_s=3600)

    def risk(**changes: object) -> tuple[str, int | None]:
        found = summary(replace(record, **changes), {"2": job}, START)  # type: ignore[arg-type]  # each of its own type
        return found.saved, found.at_risk_s

    assert risk() == ("", 3600)
    assert risk(saved={"name": "ckpt_900.pt", "age_s": 300}) == ("ckpt_900.pt", 300)
    assert risk(saved={"name": "ckpt_900.pt", "age_s": 9000}) == ("ckpt_900.pt", 3600), "of an earlier job"
    assert risk(manifest={**MANIFEST, "checkpoint": {"on_signal": True}}) == ("", None)
    assert len(risk_words(3 * 86400, "a-very-long-name-of-a-checkpoint-99000.pt")) <= 44, "one line of the screen"
    over = {**compiled, "train": {"exit_code": 0}}
    assert summary(replace(record, ended=over), {}, START).at_risk_s is None

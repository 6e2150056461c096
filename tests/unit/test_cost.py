"""What a cluster has cost: ledgers added up, prices and what has none, caps on runs, and idling."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes import START, World
from tests.unit.test_submit import example, plan
from trnctl.actions.cost import CostReport, cost
from trnctl.actions.runs import OpenCluster
from trnctl.actions.status import ClusterStatus, status, summarize
from trnctl.actions.submit import Wishes
from trnctl.adapters.aws_pricing import hourly
from trnctl.cli.cost_screens import own_prices
from trnctl.errors import CloudError, NotFoundError, RefusedError, UsageError
from trnctl.plan.cap import minutes_of, slurm_time
from trnctl.plan.cost import price_of, spent
from trnctl.ports import File, FileSystem, FleetLedger, Instance, Job, QueuePicture, RunRecord, Submission
from trnctl.specs.cluster import ClusterSpec, Ttl
from trnctl.specs.prices import Prices

BUCKET, FOLDER = "my-bucket", "/fsx/trnctl/runs"
HOUR = timedelta(hours=1)
NODE, HEAD = 21.50, 0.68


def ledger(**changes: Any) -> FleetLedger:
    """Four node-hours on one day, two on the next, nothing on now."""
    day = f"{START:%Y-%m-%d}"
    next_day = f"{START + timedelta(days=1):%Y-%m-%d}"
    made = FleetLedger(
        "ultra1", START, START, {day: {"trn1.32xlarge": 4 * 3600.0}, next_day: {"trn1.32xlarge": 2 * 3600.0}},
        head_type="c5.4xlarge",
    )  # fmt: skip
    return replace(made, **changes)


@pytest.fixture
def world() -> World:
    """A running cluster whose head node has counted."""
    world = World()
    world.cloud.has_cluster("ultra1")
    world.cloud.buckets[BUCKET] = {}
    world.queue.fleet = ledger()
    return world


def opened(world: World, spec: ClusterSpec | None = None) -> OpenCluster:
    return OpenCluster("ultra1", "us-west-2", world.services(), FOLDER, BUCKET, spec)


def run(world: World, name: str, rows: list[dict[str, Any]], **manifest: Any) -> None:
    """A run that is over, with this ledger."""
    world.queue.manifests[name] = {"workload": "bert-large", "nodes": 4, "instance_type": "trn1.32xlarge", **manifest}
    world.queue.results[name] = {"ledger": rows, "complete": True}
    world.queue.submit(Submission(name, f"{FOLDER}/{name}", (File("train.sbatch", ""),), ("train",)))
    world.clock.wind(600)


def row(seconds: int, day: str = "2026-11-29") -> dict[str, Any]:
    return {"day": day, "nodes": 4, "node_seconds": seconds, "instance_type": "trn1.32xlarge"}


def total(report: CostReport) -> float:
    return sum(one.usd or 0.0 for one in report.rows)


def test_what_was_on_is_added_up_from_the_head_nodes_ledger(world: World) -> None:
    head = world.cloud.observe("ultra1").head
    assert head is not None
    assert head.launched is not None
    world.clock.wind(3600)
    found = cost(opened(world), "kind")
    hours = (world.clock.now() - head.launched).total_seconds() / 3600
    assert found.so_far_usd == pytest.approx(6 * NODE + hours * HEAD, rel=1e-6)
    assert total(found) == pytest.approx(found.so_far_usd, rel=1e-6)
    assert found.known_from == min(START, head.launched)
    assert [one.what for one in found.rows] == ["c5.4xlarge", "trn1.32xlarge"]
    assert "2026-07-20" in found.basis


def test_nodes_that_are_on_are_counted_since_the_ledgers_last_look(world: World) -> None:
    world.queue.fleet = ledger(on={"trn1.32xlarge": 2}, updated_at=world.clock.now())
    before = cost(opened(world), "kind").so_far_usd
    world.clock.wind(60)
    assert cost(opened(world), "kind").so_far_usd - before == pytest.approx((2 * NODE + HEAD) / 60, rel=1e-3)


def test_a_line_a_day_adds_up_to_the_same(world: World) -> None:
    world.clock.wind(3600 * 30)
    found = cost(opened(world), "day")
    assert len(found.rows) == 2
    assert total(found) == pytest.approx(found.so_far_usd, rel=1e-6)
    assert [one.name for one in found.rows] == [f"{START:%Y-%m-%d}", f"{START + timedelta(days=1):%Y-%m-%d}"]


def test_a_line_a_run_and_what_was_on_outside_of_runs(world: World) -> None:
    run(world, "first", [row(3600), row(1800, "2026-11-30")], max_cost_usd=50.0)
    run(world, "second", [row(7200)])
    found = cost(opened(world), "run")
    rows = {one.name: one for one in found.rows}
    assert rows["first"].usd == pytest.approx(1.5 * NODE)
    assert (rows["first"].cap_usd, rows["second"].cap_usd) == (50.0, None)
    assert rows["outside runs"].hours == pytest.approx(6 - 1.5 - 2)
    assert total(found) == pytest.approx(found.so_far_usd, rel=1e-6)


def test_storage_is_named_and_never_priced(world: World) -> None:
    world.cloud.has_file_system("ultra1", FileSystem("fs-1", "fsx-lustre", 1200, "available"))
    found = cost(opened(world), "kind")
    assert any("fs-1" in one and "not priced" in one for one in found.not_priced)
    assert total(found) == pytest.approx(found.so_far_usd, rel=1e-6)


def test_a_type_without_a_price_is_named_and_not_counted_unless_the_person_gives_one(world: World) -> None:
    world.queue.fleet = ledger(days={"2026-11-29": {"trn2.48xlarge": 3600.0}})
    found = cost(opened(world), "kind")
    assert any("--price trn2.48xlarge=USD" in one for one in found.not_priced)
    priced = cost(opened(world), "kind", Prices({"trn2.48xlarge": 40.0}))
    assert priced.so_far_usd - found.so_far_usd == pytest.approx(40.0, abs=0.01)
    assert not any("trn2" in one for one in priced.not_priced)


def test_a_cluster_that_is_gone_is_known_from_its_bucket(world: World) -> None:
    old = ledger(updated_at=START + 10 * HOUR)
    world.cloud.vanish("ultra1")
    with pytest.raises(NotFoundError):
        cost(opened(world), "kind")
    world.cloud.put_objects(BUCKET, {old.key: json.dumps(old.as_json())})
    found = cost(opened(world), "kind")
    assert found.so_far_usd == pytest.approx(6 * NODE + 10 * HEAD)
    assert found.per_hour is None
    assert found.known_from == START


def test_earlier_clusters_of_the_name_are_in_the_sum_once(world: World) -> None:
    old = ledger(
        known_from=START - 48 * HOUR, updated_at=START - 47 * HOUR, days={"2026-11-01": {"trn1.32xlarge": 3600}}
    )
    current = ledger()
    without = cost(opened(world), "kind").so_far_usd
    copies = {one.key: json.dumps(one.as_json()) for one in (old, current)}
    world.cloud.put_objects(BUCKET, copies)
    found = cost(opened(world), "kind")
    assert found.so_far_usd - without == pytest.approx(NODE + HEAD)
    assert found.known_from == START - 48 * HOUR


def test_a_bucket_that_cannot_be_read_is_said_and_is_not_the_end(world: World) -> None:
    del world.cloud.buckets[BUCKET]
    found = cost(opened(world), "kind")
    assert [one.code for one in found.alerts] == ["records-unread"]
    assert found.so_far_usd > 0


def test_without_a_ledger_the_runs_tell(world: World) -> None:
    world.queue.fleet = None
    run(world, "first", [row(36000)])
    found = cost(opened(world), "kind")
    assert found.so_far_usd == pytest.approx(10 * NODE, abs=1)
    assert "runs" in found.basis
    assert [one.name for one in cost(opened(world), "day").rows] == ["2026-11-29"]


def test_a_ledger_survives_its_way_through_json() -> None:
    made = ledger(on={"trn1.32xlarge spot": 2}, idle_since=START, stopped_at=START + HOUR, stopped_why="…", waits_for=3)
    made = replace(made, started_at=START + 2 * HOUR)
    assert FleetLedger.read(json.loads(json.dumps(made.as_json()))) == made


@pytest.mark.parametrize("damaged", [{}, {"known_from": "x"}, {"cluster": "a", "known_from": 1, "days": 3}])
def test_a_damaged_ledger_is_none(damaged: dict[str, Any]) -> None:
    assert FleetLedger.read(damaged) is None


# ------------------------------------------------------------------------------------------------- prices


def test_prices_come_from_the_person_then_from_aws_then_from_the_table() -> None:
    assert price_of([("trn1.32xlarge", 2)]).usd == 43.0
    assert price_of([("trn1.32xlarge", 2)], Prices(asked={"trn1.32xlarge": 20.0}, asked_on="2026-11-29")).usd == 40.0
    both = Prices({"trn1.32xlarge": 10.0}, {"trn1.32xlarge": 20.0}, "2026-11-29")
    assert price_of([("trn1.32xlarge", 2)], both).usd == 20.0
    assert "your price" in both.basis({"trn1.32xlarge": "on-demand"})
    assert "asked on 2026-11-29" in Prices(asked={"a": 1.0}, asked_on="2026-11-29").basis({"a": "on-demand"})


def test_spot_and_blocks_have_single_readings_or_none() -> None:
    assert price_of([("trn2.48xlarge", 1, "spot")]).usd == 14.56
    assert "us-east-2c" in price_of([("trn2.48xlarge", 1, "spot")]).basis
    assert price_of([("trn1.32xlarge", 1, "spot")]).usd == NODE
    assert "at most" in price_of([("trn1.32xlarge", 1, "spot")]).basis
    assert price_of([("trn1.32xlarge", 1, "capacity-block")]).unknown == ("trn1.32xlarge",)
    assert price_of([("trn2.48xlarge", 1)]).unknown == ("trn2.48xlarge",)


@pytest.mark.parametrize("text", ["trn1.32xlarge", "=3", "trn1.32xlarge=much", "trn1.32xlarge=-1", "trn1.32xlarge=nan"])
def test_a_price_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="TYPE=USD"):
        own_prices([text])


def product(usd: str, unit: str = "Hrs") -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    return json.dumps({"terms": {"OnDemand": {"S.T": {"priceDimensions": {"S.T.D": dimension}}}}})


def test_awss_price_list_is_read() -> None:
    assert hourly([product("21.5000000000")]) == 21.5
    assert hourly([product("0.0000000000"), product("21.5")]) == 21.5, "a block's upfront row costs nothing an hour"
    assert hourly([product("0.0000000000")]) is None
    assert hourly([product("5", "Quantity")]) is None
    assert hourly([]) is None


# --------------------------------------------------------------------------------------------------- caps


def manifest(wishes: Wishes, spec: ClusterSpec | None = None) -> tuple[dict[str, Any], str]:
    """run.json and the train job's directives of a run with these wishes."""
    files = {file.name: file.text for file in plan(wishes, spec).submission.files}
    return json.loads(files["run.json"]), files["train.sbatch"]


SHORT = {"steps_this_run": "100"}


def test_a_cap_clips_the_time_limit_of_each_job() -> None:
    told, script = manifest(Wishes(nodes=4, max_cost=860.0, arguments=SHORT))
    assert (told["max_cost_usd"], told["max_node_seconds"]) == (860.0, 144_000)
    assert "#SBATCH --time=9:58:00" in script
    assert '[ "$left" -lt 598 ]' in script
    _, script = manifest(Wishes(nodes=4, max_cost=860.0, arguments=SHORT, time_limit="2:00:00"))
    assert "#SBATCH --time=2:00:00" in script, "the person's own limit is shorter"
    told, script = manifest(Wishes(nodes=4, arguments=SHORT))
    assert told["max_cost_usd"] is None
    assert "budget" not in script


def test_what_is_expected_to_cost_more_is_refused() -> None:
    with pytest.raises(RefusedError, match="expected to cost") as caught:
        plan(Wishes(nodes=4, max_cost=100.0))
    assert "plan" in caught.value.remedy


def test_a_cap_needs_a_price() -> None:
    spec = example()
    queue = spec.queues[0]
    block = replace(queue, capacity=replace(queue.capacity, type="capacity-block", id="cr-1"))
    with pytest.raises(RefusedError, match="needs a price") as caught:
        plan(Wishes(nodes=4, max_cost=860.0, arguments=SHORT), replace(spec, queues=(block,)))
    assert "--price trn1.32xlarge=USD" in caught.value.remedy
    wishes = Wishes(nodes=4, max_cost=860.0, arguments=SHORT, prices=Prices({"trn1.32xlarge": 43.0}))
    told, _ = manifest(wishes, replace(spec, queues=(block,)))
    assert told["max_node_seconds"] == 72_000


def test_less_than_a_minute_of_the_nodes_is_refused() -> None:
    with pytest.raises(RefusedError, match="Slurm counts in minutes"):
        plan(Wishes(nodes=16, max_cost=14.3, arguments={"steps_this_run": "1"}, compile="skip"))


@pytest.mark.parametrize(
    "words",
    [
        ("--time=1-0",),
        ("-t", "9"),
        ("-N8",),
        ("--nodes=8",),
        ("--array=1-9",),
        ("--arr=1-9",),
        ("-tUNLIMITED",),
        ("-Ht600",),
        ("-HkN", "9"),
        ("-sQa1-9",),
    ],
)
def test_options_of_sbatch_do_not_overrule_the_cap(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="overrule"):
        plan(Wishes(nodes=4, max_cost=860.0, arguments=SHORT, sbatch_args=words))
    plan(Wishes(nodes=4, max_cost=860.0, arguments=SHORT, sbatch_args=("--nice=10", "--mail-type=END")))
    plan(Wishes(nodes=4, max_cost=860.0, arguments=SHORT, sbatch_args=("-H", "-Jmytask", "-pstandard", "-xnode-Nt")))


@pytest.mark.parametrize("usd", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_cap_is_an_amount_of_money(usd: float) -> None:
    with pytest.raises(UsageError, match=r"--max-cost .* is no amount of money") as caught:
        plan(Wishes(nodes=4096, max_cost=usd, arguments=SHORT))
    assert "more than 0" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("90:30", 90.5), ("1:30:00", 90), ("1-0", 1440), ("1-2:30", 1590), ("1-2:30:30", 1590.5), ("x", None)],
)
def test_slurms_forms_of_time(text: str, minutes: float | None) -> None:
    assert minutes_of(text) == minutes


def test_minutes_are_written_as_slurm_takes_them() -> None:
    assert [slurm_time(one) for one in (7, 90, 1590)] == ["0:07:00", "1:30:00", "1-02:30:00"]
    assert all(minutes_of(slurm_time(one)) == one for one in (1, 59, 60, 1439, 1440, 9999))


@pytest.mark.parametrize("known", [True, False], ids=["slurm knows", "slurm has forgotten"])
# Of a cap, what a minute and Slurm's own time cost on four nodes is kept back: $3.58.
@pytest.mark.parametrize(
    ("usd", "says"),
    [
        (50.0, "its cap of $50.00 is used up (--max-cost)"), (53.0, "its cap of $53.00 is used up (--max-cost)"),
        (54.0, ""), (500.0, ""),
    ],
)  # fmt: skip
def test_a_run_that_slurm_ended_at_its_cap_says_so(usd: float, says: str, known: bool) -> None:
    told = {"stages": ["train"], "max_cost_usd": usd, "instance_type": "trn1.32xlarge", "nodes": 4}
    told["price_per_node_hour_usd"] = NODE
    record = RunRecord(
        "capped",
        "/fsx",
        told,
        {"train": "1"},
        {"ledger": [row(int(3600 * 50 / NODE))]},
        {},
        {"train": {"exit_code": 143}},
    )
    jobs = (Job("1", "capped", "train", "timeout", "", 4),) if known else ()
    picture = QueuePicture(START, jobs, (), (record,))
    [found] = summarize(picture, START)
    assert (found.state, found.max_cost_usd) == ("timeout" if known else "failed", usd)
    assert found.cost_usd == pytest.approx(50.0, abs=0.1)
    assert found.reason == (says or "exit code 143")


# ------------------------------------------------------------------------------------------------- idling


def look(world: World, spec: ClusterSpec | None = None) -> ClusterStatus:
    return status(opened(world, spec))


def codes(world: World, spec: ClusterSpec | None = None) -> dict[str, str]:
    return {alert.code: alert.message for alert in look(world, spec).alerts}


def test_a_cluster_that_idles_too_long_is_an_alert(world: World) -> None:
    world.queue.fleet = ledger(idle_since=world.clock.now())
    world.clock.wind(3600 * 3.9)
    assert "cluster-idle" not in codes(world)
    world.clock.wind(600)
    assert "no job for 4.1 h" in codes(world)["cluster-idle"]
    assert "$0.68/h" in codes(world)["cluster-idle"]
    assert "cluster-idle" not in codes(world, replace(example(), idle_alert_hours=6))
    assert "cluster-idle" not in codes(world, replace(example(), idle_alert_hours=0))


def test_a_job_in_the_queue_is_no_idling(world: World) -> None:
    world.queue.fleet = ledger(idle_since=world.clock.now())
    world.queue.others = [Job("9", "", "", "pending", "", 4)]
    world.clock.wind(3600 * 10)
    assert "cluster-idle" not in codes(world)


def test_without_a_ledger_the_last_runs_end_tells_since_when(world: World) -> None:
    world.queue.fleet = None
    world.clock.wind(3600 * 5)
    assert "cluster-idle" in codes(world), "since the head node's start"


def test_the_ttl_is_shown_with_its_moment_and_with_what_became_of_it(world: World) -> None:
    spec = replace(example(), ttl=Ttl(idle_hours=12))
    world.queue.fleet = ledger(idle_since=datetime(2026, 11, 29, 9, 0, tzinfo=UTC))
    assert look(world, spec).ttl == "12 h after the last job; idle since 09:00 UTC: 2026-11-29 21:00 UTC"
    started = datetime(2026, 11, 29, 20, 30, tzinfo=UTC)
    world.queue.fleet = ledger(idle_since=datetime(2026, 11, 29, 9, 0, tzinfo=UTC), started_at=started)
    assert look(world, spec).ttl.endswith("since 20:30 UTC: 2026-11-30 08:30 UTC"), "a person has started it again"
    world.queue.fleet = ledger(stopped_at=START, stopped_why="no job for 12 h, its ttl")
    assert "no job for 12 h, its ttl" in codes(world, spec)["ttl-stopped"]
    world.queue.fleet = ledger(waits_for=2)
    assert "2 jobs in the queue keep it" in codes(world, spec)["ttl-waits"]


def test_money_so_far_has_a_source_and_a_beginning(world: World) -> None:
    money = look(world).as_json()["cost"]
    assert isinstance(money, dict)
    assert money["known_from"] is not None
    assert "boot and idle minutes included" in money["basis"]
    head = Instance("i-1", "c5.4xlarge", "running", "head", launched=START)
    node = Instance("i-2", "trn1.32xlarge", "running", "compute", launched=START)
    counted = spent([head, node], START + HOUR, ledger(updated_at=START + HOUR))
    assert counted.so_far_usd == pytest.approx(6 * NODE + HEAD), "nodes are in the ledger, not counted twice"


def test_a_price_list_that_refuses_is_an_error_of_awss(world: World) -> None:
    world.account.denied = CloudError("pricing: not authorized", remedy="Allow pricing:GetProducts.")
    with pytest.raises(CloudError):
        world.account.prices(["trn1.32xlarge"])

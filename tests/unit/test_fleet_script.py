"""fleet.py as the head node's timer runs it: below a root of its own, with stand-ins for Slurm's commands."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_render_cluster import SPEC
from trnctl.ports import FleetLedger
from trnctl.render import templates
from trnctl.render.node import fleet_settings
from trnctl.sandbox.machines.head_timer import HeadTimer
from trnctl.specs.cluster import Ttl

NODE = Path(__file__).parents[2] / "templates" / "node"
CLUSTER = replace(SPEC, bucket="my-bucket")
KINDS = "dynamic,trn1.32xlarge,i1,efa"


@dataclass
class Cloud:
    """An endpoint that takes what is written to S3 and DynamoDB; `refuses` is DynamoDB's no."""

    endpoint: str = ""
    refuses: str = ""
    asked: list[tuple[str, Any]] = field(default_factory=list)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    told = Cloud()

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.asked.append((self.headers["X-Amz-Target"], json.loads(body)))
            self._answer(400 if told.refuses else 200, told.refuses or "{}")

        def do_PUT(self) -> None:
            told.asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self._answer(200, "")

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told.endpoint = f"http://127.0.0.1:{server.server_port}"
    yield told
    server.shutdown()
    server.server_close()


@dataclass
class Head:
    """A head node's root: the program where the node script puts it, and what Slurm says."""

    root: Path
    cloud: Cloud

    def says(self, nodes: str, jobs: str = "") -> None:
        """What sinfo and squeue print; squeue's empties when the jobs are cancelled."""
        (self.root / "nodes").write_text(nodes)
        (self.root / "jobs").write_text(jobs)

    def knows(self, **state: object) -> None:
        """Go on from another state."""
        path = self.root / "opt/trnctl/state/fleet.json"
        path.write_text(json.dumps({**self.state(), **state}))

    def state(self) -> dict[str, Any]:
        """What the program has written down."""
        return dict(json.loads((self.root / "opt/trnctl/state/fleet.json").read_text()))

    def settings(self, **more: object) -> None:
        """Write settings as the node script does."""
        settings = {**fleet_settings(CLUSTER), **more}
        (self.root / "opt/trnctl/fleet.json").write_text(json.dumps(settings))

    def look(self) -> subprocess.CompletedProcess[str]:
        """One run of the timer's program."""
        environment = {
            "PATH": f"{self.root / 'bin'}:/usr/bin:/bin", "AWS_ENDPOINT_URL": self.cloud.endpoint,
            "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-E", "-s", str(self.root / "opt/trnctl/timer.d/fleet")],
            env=environment, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def head(tmp_path: Path, cloud: Cloud) -> Head:
    made = Head(tmp_path, cloud)
    for name, source in (("timer.d/fleet", "fleet"), ("lib/s3.py", "s3"), ("lib/dynamodb.py", "dynamodb")):
        target = tmp_path / "opt/trnctl" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(NODE / f"{source}.py", target)
    (tmp_path / "opt/trnctl/state").mkdir()
    (tmp_path / "bin").mkdir()
    for name, text in (
        ("sinfo", f'cat "{tmp_path}/nodes"'),
        ("squeue", f'cat "{tmp_path}/jobs"'),
        ("scancel", f'echo "$*" >>"{tmp_path}/cancelled"; : >"{tmp_path}/jobs"'),
    ):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    made.settings()
    made.says("")
    return made


def node(name: str, state: str, queue: str = "compute1", partition: str = "up", kinds: str = KINDS) -> str:
    return f"{name}|{state}|{kinds}|{partition}|{queue}\n"


@pytest.mark.parametrize("name", ["fleet", "dynamodb"])
def test_old_pythons_can_read_the_scripts(name: str) -> None:
    tree = ast.parse(templates.read(f"node/{name}.py"), feature_version=(3, 6))
    imported = {alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names}
    assert imported <= {*sys.stdlib_module_names, "s3", "dynamodb"}


def test_nodes_that_are_on_are_counted_once_by_type_and_day(head: Head) -> None:
    head.says(
        node("a-1", "idle") + node("a-2", "allocated#") + node("a-3", "idle~") + node("a-4", "idle%")
        + node("a-5", "down*") + node("a-1", "idle", "second")
    )  # fmt: skip
    head.look()
    assert head.state()["on"] == {"trn1.32xlarge": 3}
    assert head.state()["days"] == {}, "of what was before the first look nobody knows"
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    began = time.time() - 100
    head.knows(updated_at=began)
    head.look()
    days = head.state()["days"]
    assert sum(day["trn1.32xlarge"] for day in days.values()) == pytest.approx(300, abs=30)
    assert len(days) == (2 if began < midnight else 1)
    ledger = FleetLedger.read(head.state())
    assert ledger is not None
    assert (ledger.cluster, ledger.on, ledger.head_type) == (SPEC.name, {"trn1.32xlarge": 3}, "c5.4xlarge")


def test_a_gap_in_which_nobody_looked_counts_one_minute(head: Head) -> None:
    head.says(node("a-1", "idle"))
    head.look()
    head.knows(updated_at=time.time() - 7200)
    head.look()
    assert sum(day["trn1.32xlarge"] for day in head.state()["days"].values()) == pytest.approx(60, abs=1)


def test_spot_nodes_are_counted_as_such(head: Head) -> None:
    head.settings(capacity={"cheap": "spot"})
    head.says(node("a-1", "idle") + node("b-1", "idle", "cheap"))
    head.look()
    assert head.state()["on"] == {"trn1.32xlarge": 1, "trn1.32xlarge spot": 1}


def test_what_slurm_does_not_say_is_not_counted_as_nothing(head: Head) -> None:
    head.says(node("a-1", "idle"))
    head.look()
    before = head.state()
    (head.root / "bin/squeue").write_text("#!/bin/sh\nexit 1\n")
    head.look()
    assert head.state() == before


def test_it_is_copied_to_the_bucket_now_and_then(head: Head, cloud: Cloud) -> None:
    head.look()
    head.look()
    head.look()
    [(path, content)] = cloud.asked
    assert path.startswith(f"/my-bucket/trnctl/{SPEC.name}/ledger/20")
    assert content["cluster"] == SPEC.name


IDLE = fleet_settings(replace(CLUSTER, ttl=Ttl(idle_hours=2)))["ttl"]


@pytest.mark.parametrize(
    ("hours", "slurm", "stops"),
    [
        (2.1, ("", "up"), True),
        (1.9, ("", "up"), False),
        (2.1, ("7|RUNNING\n", "up"), False),
        (2.1, ("", "inact"), False),
    ],
    ids=["idle long enough", "not long enough", "a job", "stopped already"],
)
def test_an_idle_fleet_is_stopped(head: Head, cloud: Cloud, hours: float, slurm: tuple[str, str], stops: bool) -> None:
    jobs, partition = slurm
    head.settings(ttl=IDLE, bucket=None)
    head.says(node("a-1", "idle", partition=partition), jobs)
    head.look()
    head.knows(idle_since=None if jobs else time.time() - hours * 3600)
    head.look()
    assert len(cloud.asked) == stops
    if stops:
        target, asked = cloud.asked[0]
        assert target == "DynamoDB_20120810.UpdateItem"
        assert asked["TableName"] == f"parallelcluster-{SPEC.name}"
        assert asked["ExpressionAttributeValues"][":asked"] == {"S": "STOP_REQUESTED"}
        assert asked["ConditionExpression"] == "#data.#status IN (:runs, :protected)"
        assert asked["ExpressionAttributeValues"][":protected"] == {"S": "PROTECTED"}, "whose other queues cost too"
        assert head.state()["ttl"]["why"] == "no job for 2 h, its ttl"
        head.look()
        assert len(cloud.asked) == 1, "once is enough"


def test_a_job_keeps_the_fleet_beyond_its_date_and_is_told_of(head: Head, cloud: Cloud) -> None:
    head.settings(ttl={"idle_s": None, "at": time.time() - 5, "end_jobs": False}, bucket=None)
    head.says(node("a-1", "allocated"), "7|RUNNING\n8|PENDING\n")
    head.look()
    assert cloud.asked == []
    assert head.state()["ttl"]["waits_for"] == 2
    head.says(node("a-1", "idle"))
    head.look()
    assert len(cloud.asked) == 1
    assert "waits_for" not in head.state()["ttl"]


def test_jobs_are_ended_only_when_told(head: Head, cloud: Cloud) -> None:
    head.settings(ttl={"idle_s": None, "at": time.time() - 5, "end_jobs": True}, bucket=None)
    head.says(node("a-1", "allocated"), "7\n")
    head.look()
    assert (head.root / "cancelled").read_text() == "7\n"
    assert cloud.asked == [], "the jobs write down what they have reached first"
    head.look()
    assert len(cloud.asked) == 1


def test_a_fleet_that_a_person_starts_again_is_left_alone(head: Head, cloud: Cloud) -> None:
    at = time.time() - 5000
    head.settings(ttl={"idle_s": 7200, "at": at, "end_jobs": False}, bucket=None)
    head.says(node("a-1", "idle"))
    head.look()
    assert len(cloud.asked) == 1
    head.knows(ttl={"stopped_at": time.time() - 1000, "why": "…", "done": at}, idle_since=time.time() - 9000)
    head.look()
    assert len(cloud.asked) == 1
    told = head.state()["ttl"]
    assert told["done"] == at
    head.knows(ttl={**told, "started_at": time.time() - 7300})
    head.look()
    assert len(cloud.asked) == 2, "the time of idling began anew with the start"


def test_a_stop_that_is_refused_is_tried_again(head: Head, cloud: Cloud) -> None:
    head.settings(ttl={"idle_s": 0.001, "at": None, "end_jobs": False}, bucket=None)
    head.says(node("a-1", "idle"))
    cloud.refuses = '{"__type": "AccessDeniedException", "message": "not you"}'
    head.look()
    head.knows(idle_since=time.time() - 10)
    assert "AccessDenied" in head.look().stderr
    assert "stopped_at" not in head.state()["ttl"]
    cloud.refuses = '{"__type": "…#ConditionalCheckFailedException", "message": "The conditional request failed"}'
    head.look()
    assert "stopped_at" in head.state()["ttl"], "it does not run any more: that is what was wanted"


def test_the_sandbox_runs_what_the_node_script_would_put_there(tmp_path: Path) -> None:
    from trnctl.render.node import node_script

    root = tmp_path / "root"
    timer = HeadTimer(root, {"PATH": os.environ["PATH"]}, seconds=60)
    timer.install(node_script(replace(CLUSTER, ttl=Ttl(idle_hours=12)), "head"))
    program = root / "opt/trnctl/timer.d/fleet"
    assert program.read_text() == templates.read("node/fleet.py")
    assert os.access(program, os.X_OK)
    assert json.loads((root / "opt/trnctl/fleet.json").read_text())["ttl"]["idle_s"] == 12 * 3600
    assert not os.access(root / "opt/trnctl/lib/s3.py", os.X_OK)


def test_a_fleet_that_a_person_has_stopped_and_starts_again_is_left_alone(head: Head, cloud: Cloud) -> None:
    head.settings(ttl=IDLE, bucket=None)
    head.says(node("a-1", "idle", partition="inact"))
    head.look()
    head.knows(idle_since=time.time() - 9 * 3600)
    head.look()
    head.says(node("a-1", "idle"))
    head.look()
    assert cloud.asked == [], "nobody could have submitted a job yet"


def test_a_job_that_comes_while_it_looks_keeps_the_fleet(head: Head, cloud: Cloud) -> None:
    head.settings(ttl={"idle_s": None, "at": time.time() - 5, "end_jobs": False}, bucket=None)
    head.says(node("a-1", "idle"))
    later = f'cat "{head.root}/jobs"; echo "7|PENDING" >"{head.root}/jobs"'
    (head.root / "bin/squeue").write_text(f"#!/bin/sh\n{later}\n")
    head.look()
    assert cloud.asked == []
    assert "stopped_at" not in head.state()["ttl"]

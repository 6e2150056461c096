"""Slurm's lines and words: what 22.05 printed here, and what newer ones print by their documentation."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trnctl.adapters.agent import parse_message, sbatch_remedy
from trnctl.adapters.slurm import (
    parse_duration,
    parse_event,
    parse_jobs,
    parse_nodes,
    parse_restarts,
    parse_run,
    parse_time,
)
from trnctl.adapters.slurm_states import JOB_STATES, job_state, node_state, reason_in_words
from trnctl.ports import LogLine, NodeGroup, RunOver, StageState

DOWN_OR_RESERVED = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
NOT_AVAILABLE = "ReqNodeNotAvail, UnavailableNodes:compute1-dy-i1-[1-4]"
EPOCH = "20786-12:44:28"  # the elapsed time of a job that never started
OURS = "trnctl:bert-large-1129-a3f:train"
# Fields of the script's JOB_FORMAT: id, state, reason, nodes, user, partition, elapsed, start, hosts, comment.
FIELDS = (
    ["12", "COMPLETING", "None", "2", "me", "compute1", "1-02:03:04", "2026-11-29T09:14:00", "c[1-2]", OURS],
    ["11_4", "PENDING", DOWN_OR_RESERVED, "16", "eve", "compute1", "0:00", "2031-01-01T00:00:00", "", "(null)"],
    ["13", "PENDING", NOT_AVAILABLE, "4", "eve", "compute1", "0:00", "N/A", "", "her | own: trnctl:x:train"],
    ["9", "CANCELLED", "DependencyNeverSatisfied", "16", "me", "compute1", EPOCH, "Unknown", "", "trnctl:b07:train"],
    ["14", "PENDING", "BeginTime", "4", "me", "compute1", "INVALID", "2026-11-29T10:00:00", "", "trnctl:c1:train"],
)
UGLY = "\n".join("\x1f".join(fields) for fields in FIELDS)


def test_ugly_lines_of_squeue() -> None:
    jobs = {job.id: job for job in parse_jobs(f"slurm_load_jobs: noise\n{UGLY}\n", {"14": 1})}
    assert list(jobs) == ["9", "11_4", "12", "13", "14"]
    done = jobs["12"]
    assert (done.run, done.stage, done.state) == ("bert-large-1129-a3f", "train", "completing")
    assert (done.elapsed_s, done.starts) == (93784, datetime(2026, 11, 29, 9, 14, tzinfo=UTC))
    assert jobs["11_4"].reason == "waits: nodes that it needs are down, drained or reserved"
    assert jobs["13"].reason == "waits for nodes that are not available (UnavailableNodes:compute1-dy-i1-[1-4])"
    assert (jobs["13"].run, jobs["13"].stage, jobs["13"].user) == ("", "", "eve")
    assert (jobs["9"].state, jobs["9"].elapsed_s, jobs["9"].starts) == ("cancelled", 0, None)
    assert jobs["9"].reason == "can never start: the compile job failed"
    assert (jobs["14"].state, jobs["14"].restarts) == ("requeued", 1)


def test_lines_of_sinfo() -> None:
    rows = [
        ["compute1", "up", "idle~", "1875", "compute1-dy-i1-[1-1875]", "none"],
        ["compute1", "up", "down#", "2", "compute1-dy-i1-[3-4]",
         "(Code:InsufficientInstanceCapacity)Failure when resuming nodes"],
        ["compute2", "inact", "drained*", "1", "compute2-dy-i1-1", "Kill task failed"],
        ["empty", "up", "n/a", "0", "", "none"],
    ]  # fmt: skip
    text = "\n".join("\x1f".join(row) for row in rows)
    assert parse_nodes(text + "\nno such line\n") == (
        NodeGroup("compute1", "powered-down", 1875, "compute1-dy-i1-[1-1875]"),
        NodeGroup(
            "compute1",
            "down",
            2,
            "compute1-dy-i1-[3-4]",
            "(Code:InsufficientInstanceCapacity)Failure when resuming nodes",
        ),
        NodeGroup("compute2", "drained", 1, "compute2-dy-i1-1", "Kill task failed", "inactive"),
    )


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("idle", "idle"),
        ("idle~", "powered-down"),
        ("idle%", "powering-down"),
        ("idle!", "powering-down"),
        ("idle#", "powering-up"),
        ("allocated#", "powering-up"),
        ("mixed", "mixed"),
        ("mixed#", "powering-up"),
        ("allocated", "allocated"),
        ("allocated*", "allocated"),
        ("idle*", "down"),
        ("down*", "down"),
        ("down~", "down"),
        ("down#", "down"),
        ("drained", "drained"),
        ("drained~", "drained"),
        ("draining@", "draining"),
        ("drng", "draining"),
        ("completing", "completing"),
        ("idle$", "idle"),
        ("idle-", "idle"),
        ("mixed-", "mixed"),
        ("planned", "idle"),
        ("reserved", "idle"),
        ("maint", "drained"),
        ("inval", "down"),
        ("unknown*", "unknown"),
        ("future", "unknown"),
        ("IDLE+CLOUD", "idle"),
        ("IDLE+CLOUD+POWERED_DOWN", "powered-down"),
        ("IDLE+CLOUD+POWERING_DOWN", "powering-down"),
        ("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "powering-up"),
        ("DOWN+CLOUD+NOT_RESPONDING", "down"),
        ("IDLE+CLOUD+NOT_RESPONDING", "down"),
        ("IDLE+DRAIN", "drained"),
        ("ALLOCATED+DRAIN", "draining"),
        ("MIXED+CLOUD+DRAIN", "draining"),
        ("DOWN+DRAIN", "drained"),
        ("CLOUD", "powered-down"),
        ("", "unknown"),
    ],
)
def test_node_states(word: str, state: str) -> None:
    assert node_state(word) == state


@pytest.mark.parametrize(
    ("word", "reason", "restarts", "state"),
    [
        ("PENDING", "Resources", 0, "pending"),
        ("PENDING", "JobHeldUser", 0, "held"),
        ("PENDING", "launch failed requeued held", 1, "held"),
        ("PENDING", "BeginTime", 1, "requeued"),
        ("PENDING", "BeginTime", 0, "pending"),
        ("RUNNING", "None", 2, "running"),
        ("CANCELLED by 1000", "", 0, "cancelled"),
        ("CANCELLED+", "", 0, "cancelled"),
        ("OUT_OF_MEMORY", "", 0, "failed"),
        ("SOMETHING_NEW", "", 0, "unknown"),
    ],
)
def test_job_states(word: str, reason: str, restarts: int, state: str) -> None:
    assert job_state(word, reason, restarts) == state


def test_every_state_has_one_of_our_words() -> None:
    ours = {"held", "pending", "configuring", "running", "completing", "completed", "failed", "cancelled", "timeout"}
    assert set(JOB_STATES.values()) <= ours | {"node-fail", "requeued", "suspended", "preparing"}


@pytest.mark.parametrize(
    ("reason", "stage", "words"),
    [
        ("None", "", ""),
        ("Dependency", "train", "waits for the compile job"),
        ("Dependency", "", "waits for the job before it"),
        ("PartitionInactive", "train", "protected mode"),
        ("BadConstraints", "train", "submit it again"),
        ("launch failed requeued held", "train", "release it"),
        ("A_reason_of_tomorrow", "train", "A_reason_of_tomorrow"),
        ("Odd, with a comma", "", "Odd, with a comma"),
        ("Reserved for jobs (all)", "", "Reserved for jobs (all)"),
    ],
)
def test_reasons(reason: str, stage: str, words: str) -> None:
    found = reason_in_words(reason, stage)
    assert words in found
    assert bool(found) == bool(words)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0:07", 7), ("59:59", 3599), ("1:02:03", 3723), ("2-00:00:00", 172800), ("INVALID", 0), ("20786-12:44:28", 0)],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["N/A", "Unknown", "", "ystday 10:00", "2026-13-01T00:00:00"])
def test_times_that_are_none(text: str) -> None:
    assert parse_time(text) is None


def test_restarts() -> None:
    assert parse_restarts("12                              3           \n13   \n") == {"12": 3}


@pytest.mark.parametrize(
    "line", ["", "Welcome!", "trnctl", "trnctl is great", 'trnctl ["a"]', 'trnctl {"broken', ' trnctl {"ok": 1}']
)
def test_lines_that_are_not_ours(line: str) -> None:
    assert parse_message(line) is None


def test_events() -> None:
    assert parse_event({"stage": "train", "log": "train.log", "text": "x", "next": 2}) == LogLine(
        "train", "train.log", "x"
    )
    state = parse_event({"stage": "train", "job": "2", "state": "PENDING", "reason": "Dependency"})
    assert state == StageState("train", "2", "pending", "waits for the compile job")
    assert parse_event({"ok": {"over": {"train": "TIMEOUT"}}}) == RunOver({"train": "timeout"})
    assert parse_event({"ok": {"over": {"train": "UNKNOWN_END"}}}) == RunOver({"train": "unknown"})
    assert parse_event({"beat": 1.5}) is None


def test_how_a_stage_ended_in_our_words() -> None:
    record = {
        "run": "a",
        "folder": "/f/a",
        "manifest": {},
        "jobs": {"train": "2"},
        "results": None,
        "refused": "",
        "logs": {},
        "ended": {
            "compile": {"exit_code": 70, "at": "2026-11-29T09:00:00Z"},
            "train": {"by": "slurm", "slurm_state": "CANCELLED", "reason": "DependencyNeverSatisfied", "job": "2"},
        },
    }
    found = parse_run(record)
    assert found.ended["compile"] == {"exit_code": 70, "at": "2026-11-29T09:00:00Z"}
    assert found.ended["train"]["state"] == "cancelled"
    assert found.ended["train"]["reason"] == "can never start: the compile job failed"


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("sbatch: error: invalid partition specified: nope", "-p/--queue"),
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available", "max_count"),
        ("sbatch: error: Memory specification can not be satisfied", "--mem"),
        ("sbatch: unrecognized option '--nope'", "after --"),
        ("sbatch: error: something new", "Nothing was left in the queue"),
    ],
)
def test_what_to_do_about_sbatch(said: str, remedy: str) -> None:
    assert remedy in sbatch_remedy(said)

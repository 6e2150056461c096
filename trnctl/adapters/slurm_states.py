"""Slurm's words in ours: job states, node states and reasons, each in one table.

Words from Slurm 22.05 to 25.11. An unknown state becomes `unknown`, an unknown reason passes through as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache

from trnctl.ports import JobState

JOB_STATES: dict[str, JobState] = {
    "BOOT_FAIL": "node-fail",
    "CANCELLED": "cancelled",
    "COMPLETED": "completed",
    "COMPLETING": "completing",
    "CONFIGURING": "configuring",
    "DEADLINE": "timeout",
    "EXPEDITING": "requeued",
    "FAILED": "failed",
    "LAUNCH_FAILED": "node-fail",
    "LOST": "failed",
    "NODE_FAIL": "node-fail",
    "OUT_OF_MEMORY": "failed",
    "PENDING": "pending",
    "POWER_UP_NODE": "configuring",
    "PREPARING": "preparing",
    "PREEMPTED": "cancelled",
    "RECONFIG_FAIL": "node-fail",
    "REQUEUED": "requeued",
    "REQUEUE_FED": "requeued",
    "REQUEUE_HOLD": "held",
    "RESIZING": "running",
    "RESV_DEL_HOLD": "held",
    "REVOKED": "cancelled",
    "RUNNING": "running",
    "SIGNALING": "running",
    "SPECIAL_EXIT": "held",
    "STAGE_OUT": "completing",
    "STOPPED": "suspended",
    "SUSPENDED": "suspended",
    "TIMEOUT": "timeout",
    "UPDATE_DB": "completing",
}

# Reasons of a pending job that mean: it will not start until somebody lets it.
_HELD = ("JobHeldUser", "JobHeldAdmin", "launch failed requeued held", "job requeued in held state")

REASONS: dict[str, str] = {
    "None": "",
    "AssocGrpNodeLimit": "waits: its account may not use more nodes at once",
    "AssocMaxJobsLimit": "waits: its account may not run more jobs at once",
    "BadConstraints": "can never start: no node has what it asks for, or Slurm lost track of its nodes when it was"
    " requeued; submit it again",
    "BeginTime": "waits for its start time: Slurm tries again some minutes after a failed start or a requeue",
    "Cleaning": "waits until its last try has been cleaned up",
    "Dependency": "waits for the job before it",
    "DependencyNeverSatisfied": "can never start: the job before it failed",
    "JobHeldAdmin": "held by an administrator",
    "JobHeldUser": "held: release it to let it start",
    "InvalidQOS": "can never start: its QOS does not exist",
    "Licenses": "waits for a licence",
    "NodeDown": "a node that it needs is down",
    "NonZeroExitCode": "it ended with an error",
    "PartitionConfig": "can never start: it asks for more than its queue allows",
    "PartitionDown": "waits: its queue is closed",
    "PartitionInactive": "waits: its queue is inactive; nodes failed to boot too often (protected mode), or the fleet"
    " is stopped",
    "PartitionNodeLimit": "can never start: it asks for more nodes than its queue has",
    "PartitionTimeLimit": "can never start: it asks for more time than its queue allows",
    "Preparing": "waits until all that it needs is there",
    "Priority": "waits: jobs with a higher priority come first",
    "Prolog": "its nodes run their prolog",
    "QOSMaxNodePerUserLimit": "waits: you may not use more nodes at once",
    "RaisedSignal": "it was ended by a signal",
    "ReqNodeNotAvail": "waits for nodes that are not available",
    "Reservation": "waits for its reservation to begin",
    "Resources": "waits for free nodes",
    "SystemFailure": "Slurm, a file system or the network failed",
    "TimeLimit": "it ran into its time limit",
    "WaitingForScheduling": "has just been submitted",
    "launch failed requeued held": "held after it failed to start on its nodes; release it once they are mended",
    "job requeued in held state": "held after it was requeued",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": "waits: nodes that"
    " it needs are down, drained or reserved",
}

_NODE_STATES: dict[str, str] = {
    "alloc": "allocated",
    "allocated": "allocated",
    "blocked": "idle",
    "cloud": "powered-down",
    "comp": "completing",
    "completing": "completing",
    "down": "down",
    "drain": "drained",
    "drained": "drained",
    "drng": "draining",
    "draining": "draining",
    "error": "down",
    "fail": "draining",
    "failg": "draining",
    "failing": "draining",
    "idle": "idle",
    "inval": "down",
    "maint": "drained",
    "mix": "mixed",
    "mixed": "mixed",
    "plnd": "idle",
    "planned": "idle",
    "pow_dn": "powering-down",
    "pow_up": "powering-up",
    "power_down": "powering-down",
    "power_up": "powering-up",
    "powered_down": "powered-down",
    "powering_down": "powering-down",
    "powering_up": "powering-up",
    "boot": "powering-up",
    "reboot": "powering-up",
    "rebooting": "powering-up",
    "reboot_issued": "powering-up",
    "resv": "idle",
    "reserved": "idle",
}
# The mark behind a state that changes what the node is. Left alone: $ maintenance, @ and ^ reboot, - planned.
_MARKS = {"~": "powered-down", "#": "powering-up", "!": "powering-down", "%": "powering-down", "*": "silent"}
# Of several words for one node the first in this order counts: trouble before power, power before work.
_ORDER = ("down", "draining", "drained", "powering-down", "powering-up", "powered-down", "completing", "mixed")


@lru_cache(maxsize=4096)
def job_state(word: str, reason: str = "", restarts: int = 0) -> JobState:
    """Our word for a job's state. `CANCELLED by 1000` (as sacct and scontrol print it) counts by its first word."""
    state = JOB_STATES.get(word.split(" ", maxsplit=1)[0].rstrip("+").upper(), "unknown")
    if state != "pending":
        return state
    if reason in _HELD:
        return "held"
    return "requeued" if restarts and reason == "BeginTime" else "pending"


@lru_cache(maxsize=4096)
def reason_in_words(reason: str, stage: str = "") -> str:
    """A reason that a person understands; `stage` is the waiting job's, '' when it is not one of ours."""
    if reason == "Dependency" and stage == "train":
        return "waits for the compile job"
    if reason == "DependencyNeverSatisfied" and stage == "train":
        return "can never start: the compile job failed"
    if reason in REASONS:
        return REASONS[reason]
    # `ReqNodeNotAvail, UnavailableNodes:compute1-dy-i1-[1-4]` and its like: a known word, then a detail.
    known = re.match(r"(\w+)(?:, ?|\()(.+?)\)?$", reason)
    if known and known[1] in REASONS:
        return f"{REASONS[known[1]]} ({known[2]})"
    return reason


def node_state(word: str) -> str:
    """Our word for a node's state: `idle~`, `allocated#`, `down*`, `IDLE+CLOUD+POWERED_DOWN`, `drained*`, …

    A node that does not answer (`*`) is down for whoever waits for it, but keeps its jobs: `allocated*` stays so.
    """
    base = word.strip().lower()
    marks = re.search(r"[*~#!%$@^-]*$", base)
    given = base[marks.start() :] if marks else ""
    parts = base[: len(base) - len(given)].split("+")
    words = [_NODE_STATES.get(part, "") for part in parts if part != "cloud" or len(parts) == 1]
    words += [_MARKS[mark] for mark in given if mark in _MARKS]
    if "drain" in parts:  # the long form says IDLE+DRAIN (drained) and ALLOCATED+DRAIN (draining)
        words = ["draining" if {"allocated", "mixed", "completing"} & set(words) else "drained"]
    if ("silent" in words or "not_responding" in parts) and "idle" in words:
        return "down"
    for state in _ORDER:
        if state in words:
            return state
    return next((state for state in words if state not in ("", "silent")), "unknown")

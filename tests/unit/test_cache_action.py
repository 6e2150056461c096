"""The compile cache on doors in memory: what is found wrong, what is unlocked, what is planned to go."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fakes import World
from tests.fakes.clock import START
from trnctl.actions.cache import look, plan_prune, prune, unlock, verify
from trnctl.actions.runs import OpenCluster
from trnctl.errors import NotFoundError, RefusedError
from trnctl.ports import CacheEntry, Lock

ENTRY = CacheEntry(
    fingerprint="4f1c00000001", cache="/fsx/trnctl/cache/trn1/2.31.1", chip="trn1", sdk="2.31.1", state="complete",
    graphs=5, bytes=1000, workload="bert-large", nodes=4, run="first", compile_s=700.0, last_used=START,
)  # fmt: skip
USED = replace(ENTRY, fingerprint="5a2c00000002", used_by=("run lives (job 5)",))


@pytest.fixture
def world() -> World:
    made = World()
    made.cloud.has_cluster("ultra1", "running")
    return made


def opened(world: World) -> OpenCluster:
    return OpenCluster("ultra1", "us-west-2", world.services(), "/fsx/trnctl/runs")


def test_a_cache_that_is_well_has_no_findings(world: World) -> None:
    world.cache.entries = [ENTRY, USED]
    assert verify(look(opened(world))) == []


def test_what_is_wrong_is_told_with_the_way_out(world: World) -> None:
    world.cache.entries = [
        replace(ENTRY, state="damaged", problems=("MODULE_1+a is gone",)),
        replace(USED, state="partial"),
    ]
    world.cache.locks = [Lock("MODULE_2+a", 2400), Lock("MODULE_3+a", 5, holder="run lives (job 5)")]
    found = {finding.code: finding for finding in verify(look(opened(world)))}
    assert set(found) == {"cache-damaged", "cache-partial", "cache-lock-stale", "cache-locked"}
    assert "locked for 40 min by a compiler that no longer runs" in found["cache-lock-stale"].message
    assert "trnctl cache unlock" in found["cache-lock-stale"].remedy
    assert "MODULE_1+a is gone" in found["cache-damaged"].message
    assert found["cache-locked"].level == "info"


def test_unlock_refuses_when_living_jobs_may_hold_all(world: World) -> None:
    world.cache.locks = [Lock("MODULE_3+a", 5, holder="run lives (job 5)")]
    with pytest.raises(RefusedError, match="perhaps by run lives"):
        unlock(opened(world))
    world.cache.locks.append(Lock("MODULE_2+a", 2400))
    assert [lock.graph for lock in unlock(opened(world)).freed] == ["MODULE_2+a"]


def test_prune_takes_those_that_were_not_used_for_long_and_never_those_that_are(world: World) -> None:
    world.cache.entries, world.cache.strays = [ENTRY, USED], 3
    world.clock.wind(timedelta(days=31).total_seconds())
    picture = look(opened(world))
    assert plan_prune(picture, (), days=32, strays=False).empty
    plan = plan_prune(picture, (), days=30, strays=False)
    assert (plan.going, plan.used, plan.strays, plan.bytes) == ((ENTRY,), (USED,), 0, 1000)
    done = prune(opened(world), plan)
    assert (done.removed, done.strays) == ((ENTRY.fingerprint,), 0)
    assert world.cache.entries == [USED]


def test_a_fingerprint_may_be_cut_short_but_not_be_two(world: World) -> None:
    world.cache.entries = [ENTRY, replace(ENTRY, fingerprint="4f1c00000009")]
    picture = look(opened(world))
    assert plan_prune(picture, ["4f1c00000009"], days=30, strays=False).going[0].fingerprint.endswith("9")
    with pytest.raises(NotFoundError, match="beginning of 2 fingerprints"):
        plan_prune(picture, ["4f1c"], days=30, strays=False)
    with pytest.raises(NotFoundError, match="no cache has the fingerprint 77"):
        plan_prune(picture, ["77"], days=30, strays=False)


def test_strays_go_with_their_size(world: World) -> None:
    world.cache.strays = 7
    plan = plan_prune(look(opened(world)), (), days=30, strays=True)
    assert (plan.strays, plan.bytes, plan.empty) == (7, 7, False)
    assert prune(opened(world), plan).strays == 7

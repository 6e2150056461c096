"""What every Provisioner must do."""

from __future__ import annotations

from typing import Protocol

import pytest

from trnctl.errors import NameTaken, NotFoundError, RefusedError
from trnctl.ports import Provisioner


class ProvisionerBench(Protocol):
    """A Provisioner with documents: `good` can be created, `bad` cannot, `larger` is an update that is allowed."""

    provisioner: Provisioner
    good: str
    bad: str
    larger: str

    def settle(self, name: str) -> None:
        """Wait until what was started with that cluster has ended."""


class ProvisionerContract:
    """Give a fixture `bench` with an account that has no cluster."""

    def test_a_cluster_from_nothing_and_back(self, bench: ProvisionerBench) -> None:
        bench.provisioner.create("demo", bench.good)
        bench.settle("demo")
        [row] = bench.provisioner.clusters()
        assert (row.name, row.region, row.status, row.version) == ("demo", "us-west-2", "CREATE_COMPLETE", "3.16.1")
        assert bench.provisioner.describe("demo")["clusterName"] == "demo"
        events = bench.provisioner.events("demo")
        assert [event.at for event in events] == sorted(event.at for event in events)
        assert (events[0].logical_id, events[0].status) == ("demo", "CREATE_IN_PROGRESS")
        assert (events[-1].logical_id, events[-1].status) == ("demo", "CREATE_COMPLETE")
        bench.provisioner.delete("demo")
        bench.settle("demo")
        assert bench.provisioner.clusters() == []

    def test_a_taken_name_is_refused(self, bench: ProvisionerBench) -> None:
        bench.provisioner.create("demo", bench.good)
        with pytest.raises(NameTaken, match="already exists"):
            bench.provisioner.create("demo", bench.good)
        with pytest.raises(NameTaken, match="already exists"):
            bench.provisioner.check("demo", bench.good)

    def test_a_bad_document_is_refused_with_findings(self, bench: ProvisionerBench) -> None:
        with pytest.raises(RefusedError) as caught:
            bench.provisioner.create("demo", bench.bad)
        assert [finding.level for finding in caught.value.findings].count("error") >= 1
        assert all(finding.code and finding.message and finding.remedy for finding in caught.value.findings)
        assert bench.provisioner.clusters() == []

    def test_check_tells_the_same_and_creates_nothing(self, bench: ProvisionerBench) -> None:
        assert [f for f in bench.provisioner.check("demo", bench.good) if f.level == "error"] == []
        assert [f for f in bench.provisioner.check("demo", bench.bad) if f.level == "error"] != []
        assert bench.provisioner.clusters() == []

    def test_deleting_what_is_not_there_is_silent(self, bench: ProvisionerBench) -> None:
        bench.provisioner.delete("nobody")
        assert bench.provisioner.clusters() == []

    def test_deleting_twice_is_silent(self, bench: ProvisionerBench) -> None:
        bench.provisioner.create("demo", bench.good)
        bench.settle("demo")
        bench.provisioner.delete("demo")
        bench.provisioner.delete("demo")
        bench.settle("demo")
        assert bench.provisioner.clusters() == []

    def test_an_update_tells_its_changes(self, bench: ProvisionerBench) -> None:
        bench.provisioner.create("demo", bench.good)
        bench.settle("demo")
        assert bench.provisioner.update("demo", bench.good) == []
        changes, findings = bench.provisioner.check_update("demo", bench.larger)
        assert [finding for finding in findings if finding.level == "error"] == []
        assert bench.provisioner.update("demo", bench.larger) == changes
        [change] = changes
        assert (change.path.rpartition(".")[2], change.current, change.requested) == ("MaxCount", "16", "20")

    def test_no_such_cluster(self, bench: ProvisionerBench) -> None:
        for ask in (bench.provisioner.describe, bench.provisioner.events):
            with pytest.raises(NotFoundError, match="nobody"):
                ask("nobody")
        with pytest.raises(NotFoundError, match="nobody"):
            bench.provisioner.set_fleet("nobody", running=True)
        with pytest.raises(NotFoundError, match="nobody"):
            bench.provisioner.update("nobody", bench.good)

    def test_an_image_from_nothing_and_back(self, bench: ProvisionerBench) -> None:
        with pytest.raises(NotFoundError, match="demo"):
            bench.provisioner.describe_image("demo")
        assert bench.provisioner.images() == []
        assert bench.provisioner.build_image("demo", bench.good) == []
        assert bench.provisioner.describe_image("demo").state == "building"
        assert [(one.name, one.state) for one in bench.provisioner.images()] == [("demo", "building")]
        with pytest.raises(RefusedError, match="already exists"):
            bench.provisioner.build_image("demo", bench.good)
        bench.settle("demo")
        found = bench.provisioner.describe_image("demo")
        assert (found.name, found.state, found.version) == ("demo", "available", "3.16.1")
        assert found.ami.startswith("ami-")
        assert [one.ami for one in bench.provisioner.images()] == [found.ami]
        bench.provisioner.delete_image("demo")
        bench.settle("demo")
        assert bench.provisioner.images() == []

    def test_a_bad_image_is_refused_with_findings(self, bench: ProvisionerBench) -> None:
        with pytest.raises(RefusedError) as caught:
            bench.provisioner.build_image("demo", bench.bad)
        assert [finding.level for finding in caught.value.findings] == ["error"]
        assert bench.provisioner.images() == []

    def test_deleting_an_image_that_is_not_there_is_silent(self, bench: ProvisionerBench) -> None:
        bench.provisioner.delete_image("nobody")
        assert bench.provisioner.images() == []

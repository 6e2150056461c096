"""What every Cloud must do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from trnctl.errors import CloudError
from trnctl.ports import Cloud


class CloudBench(Protocol):
    """A Cloud, and the ways of a test to put things behind it."""

    cloud: Cloud

    def has_cluster(self, name: str) -> None:
        """A complete stack and fleet, a head node, one node of queue compute1, resource i1, and one terminated."""

    def has_file_system(self, name: str) -> str:
        """A file system of 1200 GiB with the cluster's tag; its id."""

    def has_security_group(self, name: str) -> str:
        """A security group with the cluster's tag that nothing uses; its id."""

    def removes_stack(self, name: str) -> None:
        """The stack is deleted; its instances are terminated."""

    def has_sent(self, name: str, source: str, line: str) -> None:
        """The head node of the cluster has sent a line of its log of that kind just now."""

    def has_bucket(self, name: str) -> None:
        """An empty bucket in the account's region."""

    def objects(self, bucket: str) -> dict[str, str]:
        """What is in a bucket, by key."""


class CloudContract:
    """Give a fixture `bench` with an empty account."""

    def test_nothing_is_there(self, bench: CloudBench) -> None:
        observed = bench.cloud.observe("nobody")
        assert (observed.stack, observed.fleet, observed.instances) == (None, None, ())
        assert bench.cloud.stack_events("nobody") == []
        assert bench.cloud.file_systems("nobody") == []
        assert [resource for resource in bench.cloud.leftovers("nobody") if resource.id] == []

    def test_a_mark_stays_on_an_instance_until_it_is_taken_off(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        head = bench.cloud.observe("demo").head
        assert head is not None
        assert head.marks == {}
        for value in ("once", "again"):
            bench.cloud.mark(head.id, "update", value)
            seen = bench.cloud.observe("demo").head
            assert seen is not None
            assert seen.marks == {"update": value}
        for _ in range(2):
            bench.cloud.mark(head.id, "update", None)
            seen = bench.cloud.observe("demo").head
            assert seen is not None
            assert seen.marks == {}

    def test_observe(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        observed = bench.cloud.observe("demo")
        assert observed.stack is not None
        assert (observed.stack.name, observed.stack.phase, observed.stack.version) == ("demo", "running", "3.16.1")
        assert observed.stack.created.tzinfo is not None
        assert observed.fleet is not None
        assert observed.fleet.status == "running"
        by_role = {instance.role: instance for instance in observed.instances}
        assert len(observed.instances) == 2
        assert by_role["head"].public_ip
        assert by_role["head"].launched is not None
        assert (by_role["compute"].queue, by_role["compute"].compute_resource) == ("compute1", "i1")
        assert by_role["compute"].type == "trn1.32xlarge"

    def test_clusters_do_not_mix(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        bench.has_cluster("demo-2")
        assert len(bench.cloud.observe("demo").instances) == 2
        assert bench.cloud.observe("dem").stack is None

    def test_stack_events_oldest_first(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        events = bench.cloud.stack_events("demo")
        assert events
        assert [event.at for event in events] == sorted(event.at for event in events)

    def test_the_events_of_a_stack_just_deleted(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        bench.removes_stack("demo")
        assert bench.cloud.observe("demo").stack is None
        assert bench.cloud.stack_events("demo")[-1].status == "DELETE_COMPLETE"

    def test_a_file_system_outlives_its_cluster_until_deleted(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        wanted = bench.has_file_system("demo")
        bench.removes_stack("demo")
        [found] = bench.cloud.file_systems("demo")
        assert (found.id, found.kind, found.gib) == (wanted, "fsx-lustre", 1200)
        assert wanted in [resource.id for resource in bench.cloud.leftovers("demo")]
        bench.cloud.delete_file_system(found)
        assert bench.cloud.file_systems("demo") == []
        bench.cloud.delete_file_system(found)  # again: silent
        assert wanted not in [resource.id for resource in bench.cloud.leftovers("demo")]

    def test_living_instances_are_leftovers(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        living = {instance.id for instance in bench.cloud.observe("demo").instances}
        assert living <= {resource.id for resource in bench.cloud.leftovers("demo")}
        bench.removes_stack("demo")
        assert not living & {resource.id for resource in bench.cloud.leftovers("demo")}

    def test_what_a_file_system_kept_alive_can_go(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        wanted = bench.has_security_group("demo")
        [group] = [resource for resource in bench.cloud.leftovers("demo") if resource.id == wanted]
        assert group.kind == "security group"
        assert bench.cloud.delete_beside(group)
        assert wanted not in [resource.id for resource in bench.cloud.leftovers("demo")]

    def test_instances_are_never_deleted_beside(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        before = bench.cloud.observe("demo").instances
        for resource in bench.cloud.leftovers("demo"):
            if resource.kind == "instance":
                assert not bench.cloud.delete_beside(resource)
        assert bench.cloud.observe("demo").instances == before

    def test_the_template_of_a_stack(self, bench: CloudBench) -> None:
        bench.has_cluster("demo")
        template = bench.cloud.template("demo")
        assert template is not None
        assert "Resources" in template
        assert bench.cloud.template("nobody") is None

    def test_objects_are_written_and_written_again(self, bench: CloudBench) -> None:
        bench.has_bucket("demo-scripts")
        bench.cloud.put_objects("demo-scripts", {"trnctl/demo/a.sh": "echo 1\n", "trnctl/demo/é.txt": "ü\n"})
        bench.cloud.put_objects("demo-scripts", {"trnctl/demo/a.sh": "echo 2\n"})
        assert bench.objects("demo-scripts") == {"trnctl/demo/a.sh": "echo 2\n", "trnctl/demo/é.txt": "ü\n"}

    def test_objects_are_listed_and_read(self, bench: CloudBench) -> None:
        bench.has_bucket("demo-scripts")
        texts = {"trnctl/demo/runs/b/run.json": "ü", "trnctl/demo/runs/a/run.json": "{}", "trnctl/other/run.json": "no"}
        bench.cloud.put_objects("demo-scripts", texts)
        listed = bench.cloud.list_objects("demo-scripts", "trnctl/demo/")
        assert [(one.key, one.bytes) for one in listed] == [
            ("trnctl/demo/runs/a/run.json", 2),
            ("trnctl/demo/runs/b/run.json", 2),
        ]
        assert all(one.at.tzinfo is not None for one in listed)
        assert bench.cloud.list_objects("demo-scripts", "nothing/") == []
        keys = [one.key for one in listed]
        assert bench.cloud.get_objects("demo-scripts", [*keys, "gone"]) == {key: texts[key] for key in keys}
        assert bench.cloud.get_objects("demo-scripts", []) == {}

    def test_objects_are_deleted_and_may_be_gone_already(self, bench: CloudBench) -> None:
        bench.has_bucket("demo-scripts")
        bench.cloud.put_objects("demo-scripts", {"trnctl/demo/a.sh": "1", "trnctl/demo/b.sh": "2"})
        bench.cloud.delete_objects("demo-scripts", ["trnctl/demo/a.sh", "trnctl/demo/gone.sh"])
        assert bench.objects("demo-scripts") == {"trnctl/demo/b.sh": "2"}

    def test_reading_a_bucket_that_is_not_there(self, bench: CloudBench) -> None:
        with pytest.raises(CloudError, match="no bucket nobodys-bucket"):
            bench.cloud.list_objects("nobodys-bucket", "")
        with pytest.raises(CloudError, match="no bucket nobodys-bucket"):
            bench.cloud.get_objects("nobodys-bucket", ["a"])

    def test_a_bucket_that_is_not_there(self, bench: CloudBench) -> None:
        with pytest.raises(CloudError, match="no bucket nobodys-bucket") as caught:
            bench.cloud.put_objects("nobodys-bucket", {"a": "b"})
        assert caught.value.remedy
        bench.cloud.put_objects("nobodys-bucket", {})  # nothing is asked for nothing

    def test_looked_for_is_words(self, bench: CloudBench) -> None:
        assert "instances" in bench.cloud.looked_for()

    def test_logs_outlive_their_nodes(self, bench: CloudBench) -> None:
        assert bench.cloud.sent_logs("demo") == []
        bench.has_cluster("demo")
        bench.has_sent("demo", "cloud-init", "E: Could not get lock /var/lib/dpkg/lock-frontend.")
        bench.removes_stack("demo")
        (text,) = bench.cloud.sent_logs("demo")
        assert (text.source, text.text) == ("cloud-init", "E: Could not get lock /var/lib/dpkg/lock-frontend.\n")
        assert bench.cloud.sent_logs("dem") == []
        later = datetime.now(UTC) + timedelta(hours=1)
        assert bench.cloud.sent_logs("demo", (), later) == []

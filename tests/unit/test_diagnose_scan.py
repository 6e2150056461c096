"""A stream is read in bounded memory, the same however it is cut, and quickly where lines are alike."""

from __future__ import annotations

import json
import random
import re
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.diagnosing import codes, diagnosed, diagnosed_all, probes, signatures
from trnctl.diagnose.evidence import Origin
from trnctl.diagnose.judge import Diagnosis, judge
from trnctl.diagnose.literals import SHORTEST, pieces, shape, skeleton, stands_in
from trnctl.diagnose.scan import MOST_HITS, Scanner

LINE = b"2026-10-01 09:12:01,%03d - [slurm_plugin.clustermgtd:main] - INFO - step %d, node trn1-dy-t32-%d\n"
NEEDLE = (
    b"2026-10-01 09:12:02,001 - ERROR - You have requested more vCPU capacity than your current vCPU limit of 128\n"
)


def log(megabytes: int) -> Iterator[bytes]:
    """A log of many lines that are alike, a line that matters in its middle."""
    block = b"".join(LINE % (number % 1000, number, number % 16) for number in range(10_000))
    count = megabytes * 1_000_000 // len(block)
    for number in range(count):
        yield block
        if number == count // 2:
            yield NEEDLE


def read(chunks: Iterator[bytes]) -> Diagnosis:
    """The diagnosis of a stream."""
    scanner = Scanner(probes())
    scanner.read(chunks, Origin(file="big.log"))
    return judge(scanner.scan, signatures())


def test_a_long_log_is_read_in_bounded_memory() -> None:
    tracemalloc.start()
    try:
        found = read(log(20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert codes(found) == ["vcpu-limit"]
    assert peak < 16_000_000, "20 MB of log must not be held"


def test_a_long_log_is_read_quickly() -> None:
    began = time.process_time()
    found = read(log(30))
    took = time.process_time() - began
    assert found.seen[0].size > 29_000_000
    assert took < 4, f"30 MB took {took:.1f} s of a processor; a quiet machine reads some 100 MB a second"


def diverse(megabytes: int) -> Iterator[bytes]:
    """A log of lines that are all different, made of a few thousand words."""
    dice = random.Random(3)  # noqa: S311  # no secret hangs on it
    words = [bytes(dice.choices(b"abcdefghijklmnopqrstuvwxyz_", k=dice.randint(3, 9))) for _ in range(3000)]
    for _ in range(megabytes * 10):
        lines = (
            b"2026-10-01 09:12:01,%03d INFO " % dice.randrange(1000) + b" ".join(dice.choices(words, k=9))
            for _ in range(1100)
        )
        yield b"\n".join(lines) + b"\n"


def test_lines_that_are_all_different_are_read_quickly_too() -> None:
    chunks = list(diverse(5))
    began = time.process_time()
    read(iter([*chunks, NEEDLE]))
    took = time.process_time() - began
    assert took < 4, f"5 MB took {took:.1f} s of a processor; a quiet machine reads some 30 MB a second"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("Kill task failed", "kill TASK failed"),
        (r"wait(?:ing)? for (?:the )?(?:lock|port) (?P<n>\d+)$", "waiting for port 12"),
        (r"(?:NRT_\w+|status)\W{0,4}1205\b", "nrt status = 1205"),
        (r"^(?!.{0,9}no).{0,99}\bsrun\b", "x srun"),
    ],
)
def test_the_skeleton_of_a_pattern_stands_in_what_it_matches(pattern: str, text: str) -> None:
    assert re.search(pattern, text, re.IGNORECASE)
    assert stands_in(shape(text.encode()), skeleton(pattern))
    assert not stands_in(shape(b"something else"), skeleton(pattern))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_where_a_stream_is_cut_changes_nothing(sizes: list[int]) -> None:
    whole = b"".join([*(LINE % (n, n, n) for n in range(20)), NEEDLE, *(LINE % (n, n, n) for n in range(20))])
    chunks, at = [], 0
    for size in sizes:
        chunks.append(whole[at : at + size])
        at += size
    cut, uncut = read(iter([*chunks, whole[at:]])), read(iter([whole]))
    assert cut.findings == uncut.findings
    assert cut.findings[0].line == 21


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_are_read(data: bytes) -> None:
    assert read(iter([data])).seen[0].size == len(data)


def test_a_flood_of_one_line_is_one_finding() -> None:
    found = diagnosed("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7\n" * 5000)
    assert codes(found) == ["apt-lock"]


def test_a_node_that_speaks_in_another_file_is_heard_after_a_flood() -> None:
    flood = "Timeout waiting for RX (waited 120 sec) - retrying\n" * (3 * MOST_HITS)
    found = diagnosed_all({"a.log": flood, "b.log": "trn1-dy-t32-4: NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR nd-id=1"})
    assert codes(found) == ["neuron-hw-error"]
    assert found.findings[0].node == "trn1-dy-t32-4"


def test_a_line_without_an_end_is_quoted_in_part() -> None:
    found = diagnosed("x" * 3_000_000 + " InsufficientInstanceCapacity " + "y" * 1000)
    assert codes(found) == ["insufficient-capacity"]
    assert len(found.findings[0].evidence) < 300


def test_a_progress_bar_hides_nothing() -> None:
    bar = "".join(f"\rcompiling {percent} %" for percent in range(100))
    assert codes(diagnosed(f"{bar}\rneuronx-cc failed with -9\n")) == ["compile-host-oom"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("Kill task failed", (b"kill",)),
        (r"limit of (?P<limit>\d+) vCPU", (b"limit",)),
        (r"(?:port|socket) in use|no such place", (b"port", b"sokt", b"suh")),
        (r"wait(?:ing)? for \w+ please", (b"wit",)),
        (r"x?yz+[abc]token", (b"tokn",)),
    ],
)
def test_the_pieces_of_a_pattern(pattern: str, found: tuple[bytes, ...]) -> None:
    assert pieces(pattern) == found


@pytest.mark.parametrize("pattern", [r"\d+", "a|waiting", "[a-z]+ [0-9]", "(?:no|waiting)?"])
def test_a_pattern_without_a_piece_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=f"no plain piece of {SHORTEST} characters"):
        pieces(pattern)


def test_lines_that_differ_in_numbers_have_one_shape() -> None:
    lines = {shape(LINE % (n, n * 7919, n)) for n in range(100)} | {
        shape(b"i-0abc 10.0.0.1"),
        shape(b"i-9fed 10.0.9.7"),
    }
    assert len(lines) == 2


OOM = "Out of memory: Killed process 4711 (python3) total-vm:8kB"


@pytest.mark.parametrize(
    "record",
    [
        {"__REALTIME_TIMESTAMP": "1", "_HOSTNAME": "trn1-dy-t32-1", "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": OOM},
        {"_HOSTNAME": "trn1-dy-t32-1", "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": list(OOM.encode())},
        {"timestamp": 1, "message": f"Oct  1 09:12:01 trn1-dy-t32-1 kernel: {OOM}", "ingestionTime": 2},
        {"log": f"trn1-dy-t32-1: {OOM}\n", "stream": "stderr", "time": "2026-10-01T09:12:01Z"},
    ],
    ids=["journald", "journald, bytes", "CloudWatch", "Docker"],
)
def test_a_log_record_is_read_as_the_line_that_it_carries(record: dict[str, object]) -> None:
    found = diagnosed("\n".join(json.dumps(one) for one in ({**record, "MESSAGE": "a", "message": "a"}, record)))
    (finding,) = found.findings
    assert finding.code == "host-out-of-memory"
    assert OOM in finding.evidence
    assert "{" not in finding.evidence
    assert finding.node == "trn1-dy-t32-1"


def test_an_event_of_pcluster_is_read_with_its_details() -> None:
    event = {
        "datetime": "2026-10-01T09:12:01.123+00:00",
        "level": "ERROR",
        "event-type": "custom-action-error",
        "message": "Failed to execute OnNodeStart script 1 s3://demo/a.sh, return code: 1.",
        "detail": {"action": "OnNodeStart", "error": {"stderr": "E: Unable to locate package aws-neuronx-tool"}},
    }
    (finding,) = diagnosed("\n".join(json.dumps(one) for one in (event, event))).findings
    assert finding.code == "package-index-failed"
    assert "OnNodeStart" not in finding.evidence


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-10-01T09:12:01.123Z ",
        "Oct  1 09:12:01 ip-10-0-0-12 python3[1893]: ",
        "[1,26]<stderr>:",
        "[rank3]: ",
        "12: ",
        "(RayTrainWorker pid=950, ip=10.67.132.202) ",
        "| 2026-10-01T19:01:06.051-08:00 | Stdout: ",
        "2026-10-01 09:12:01,212 [ERROR] Command output: ",
    ],
)
def test_what_begins_a_line_may_stand_behind_what_logs_put_there(prefix: str) -> None:
    assert codes(diagnosed(f"{prefix}ValueError: batch size 7 is odd")) == ["python-exception"]
    assert codes(diagnosed(f"{prefix}he said ValueError: batch size 7 is odd")) == []


def test_lines_that_speak_of_an_error_are_kept_where_nothing_else_is_known() -> None:
    text = "step 1\nERROR: the capacitor is out of tune\nanother error: 7\nINFO all is well\n"
    assert [(one.line, one.text) for one in diagnosed(text).unexplained] == [
        (2, "ERROR: the capacitor is out of tune"),
        (3, "another error: 7"),
    ]
    assert diagnosed(text + NEEDLE.decode()).unexplained == ()
    assert diagnosed("error: kex_exchange_identification: x [preauth]\n").unexplained == (), "it is harmless"
    assert len(diagnosed("".join(f"error: {number}\n" for number in range(50))).unexplained) == 3

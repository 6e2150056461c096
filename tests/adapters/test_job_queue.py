"""The JobQueue: in memory, and Slurm's over a local shell and over ssh, with a real Slurm."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.adapters.small_slurm import SmallSlurm
from tests.adapters.small_sshd import SmallSshd
from tests.contracts.job_queue import JobQueueContract, QueueBench, new_run, two_stages
from tests.fakes import HandWoundClock, InMemoryQueue, ScriptedShell
from trnctl.adapters.local_shell import LocalShell
from trnctl.adapters.slurm import SlurmQueue
from trnctl.adapters.ssh_shell import SshShell
from trnctl.errors import ConnectionLost, NotFoundError, RefusedError, ToolError, UsageError
from trnctl.ports import File, JobQueue, LogLine, Need, RunOver, Shell, StageState, Submission
from trnctl.render import templates
from trnctl.render.agent import agent

SCRIPT = agent()


class MemoryBench:
    """The queue in memory."""

    runs_folder = "/fsx/trnctl/runs"

    def __init__(self) -> None:
        self._memory = InMemoryQueue(HandWoundClock())
        self.queue: JobQueue = self._memory

    def submission(self, run: str, *, compile_exit: int = 0, seconds: float = 0.2) -> Submission:
        """Teach the fake what the scripts would do."""
        self._memory.manifests[run] = {"workload": "bert-large"}
        self._memory.seconds = {"compile": seconds, "train": seconds}
        self._memory.exits[run, "compile"] = compile_exit
        self._memory.prints.update({(run, stage): [f"{stage} begins"] for stage in ("compile", "train")})
        return two_stages(run, self.runs_folder, ())

    def settle(self, run: str) -> None:
        """Let time pass."""
        self._memory.clock.wind(600)


class SlurmBench:
    """A real Slurm behind a Shell."""

    def __init__(self, shell: Shell, folder: Path) -> None:
        self.queue: JobQueue = SlurmQueue(shell, SCRIPT)
        self.runs_folder = str(folder)

    def submission(self, run: str, *, compile_exit: int = 0, seconds: float = 0.2) -> Submission:
        """Small scripts that keep to the folder's layout."""
        scripts = [
            File(f"{stage}.sbatch", self._script(run, stage, code, seconds))
            for stage, code in (("compile", compile_exit), ("train", 0))
        ]
        return two_stages(run, self.runs_folder, tuple(scripts))

    def settle(self, run: str) -> None:
        """Follow it to its end."""
        *_, last = self.queue.follow(run, self.runs_folder)
        assert isinstance(last, RunOver)

    def _script(self, run: str, stage: str, code: int, seconds: float) -> str:
        folder = f"{self.runs_folder}/{run}"
        return (
            f"#!/bin/bash\n#SBATCH --nodes=1 --exclusive --output={folder}/{stage}.log\n"
            f'trap \'printf "{{\\"exit_code\\": %d}}" "$code" >{folder}/ended/{stage}.json\' EXIT\n'
            "code=143; trap 'exit 143' TERM\n"
            f"echo '{stage} begins' >{folder}/logs/{stage}/node-0.log\n"
            f"sleep {seconds} & wait $!\ncode={code}; exit {code}\n"
        )


class TestInMemory(JobQueueContract):
    """The fake keeps its promises."""

    @pytest.fixture
    def bench(self) -> QueueBench:
        return MemoryBench()


class TestSlurmHere(JobQueueContract):
    """Slurm on this machine."""

    @pytest.fixture
    def bench(self, slurm: SmallSlurm) -> Iterator[QueueBench]:
        yield from _fresh(slurm, LocalShell(slurm.environ))


@pytest.mark.slow
class TestSlurmOverSsh(JobQueueContract):
    """Slurm behind a real ssh."""

    @pytest.fixture
    def bench(self, slurm: SmallSlurm, sshd: SmallSshd) -> Iterator[QueueBench]:
        yield from _fresh(slurm, SshShell(LocalShell(), "127.0.0.1", sshd.options()))


def _fresh(slurm: SmallSlurm, shell: Shell) -> Iterator[QueueBench]:
    """A runs folder of its own, and afterwards an empty queue."""
    shared = slurm.root / "shared"
    shared.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="runs-", dir=shared))  # jobs of the last test may still write into theirs
    yield SlurmBench(shell, folder)
    slurm.call("scancel", "--full", "-u", slurm.call("squeue", "-h", "-o", "%u").split("\n")[0] or "root")


@pytest.fixture
def here(slurm: SmallSlurm) -> Iterator[SlurmBench]:
    """Slurm on this machine, for what only a real one can show."""
    for bench in _fresh(slurm, LocalShell(slurm.environ)):
        assert isinstance(bench, SlurmBench)
        yield bench


def eventually(holds: Callable[[], bool], what: str, timeout: float = 30) -> None:
    """Wait until something holds."""
    limit = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < limit, f"{timeout:g} s, and still not: {what}"
        time.sleep(0.1)


def living(slurm: SmallSlurm, run: str) -> list[str]:
    """The ids of the run's jobs in the queue."""
    lines = slurm.call("squeue", "-h", "-o", "%i %k").splitlines()
    return [line.split()[0] for line in lines if f"trnctl:{run}:" in line]


def test_a_lost_answer_is_recovered_from_the_comments(here: SlurmBench, slurm: SmallSlurm) -> None:
    """The first try broke off after both sbatch and before it could write the ids down."""
    submission = here.submission(new_run(), seconds=30)
    first = here.queue.submit(submission)
    (Path(submission.folder) / "submitted.json").unlink()
    second = here.queue.submit(submission)
    assert (second.jobs, second.again) == (first.jobs, True)
    assert json.loads((Path(submission.folder) / "submitted.json").read_text())["jobs"] == dict(first.jobs)
    assert sorted(living(slurm, submission.run)) == sorted(first.jobs.values())


def test_half_a_submission_is_begun_anew(here: SlurmBench, slurm: SmallSlurm) -> None:
    """The first try broke off between the two sbatch: what is there is cancelled, and both come in."""
    submission = here.submission(new_run(), seconds=30)
    held = ["--hold", f"--comment=trnctl:{submission.run}:compile", "--wrap=true", "--output=/dev/null"]
    orphan = slurm.call("sbatch", "--parsable", *held).strip()
    submitted = here.queue.submit(submission)
    assert not submitted.again
    assert orphan not in living(slurm, submission.run)
    assert sorted(living(slurm, submission.run)) == sorted(submitted.jobs.values())


def test_two_submissions_at_once_are_one(here: SlurmBench, slurm: SmallSlurm) -> None:
    submission = here.submission(new_run(), seconds=30)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(here.queue.submit(submission))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({tuple(answer.jobs.values()) for answer in answers}) == 1
    assert sorted(answer.again for answer in answers) == [False, True, True]
    assert len(living(slurm, submission.run)) == 2


def test_a_refused_second_stage_takes_the_first_back(here: SlurmBench, slurm: SmallSlurm) -> None:
    submission = here.submission(new_run())
    broken = [
        File("train.sbatch", "#!/bin/bash\n#SBATCH --nodes=99\n") if file.name == "train.sbatch" else file
        for file in submission.files
    ]
    with pytest.raises(ToolError, match="Node count specification invalid") as caught:
        here.queue.submit(replace(submission, files=tuple(broken)))
    assert "max_count" in caught.value.remedy
    assert living(slurm, submission.run) == []
    [record] = here.queue.observe(here.runs_folder, run=submission.run).runs
    assert "Node count specification invalid" in record.refused
    assert dict(record.jobs) == {}
    here.queue.submit(submission)  # mended, under the same name
    [record] = here.queue.observe(here.runs_folder, run=submission.run).runs
    assert (record.refused, set(record.jobs)) == ("", {"compile", "train"})


@pytest.mark.parametrize(
    ("word", "said"),
    [("--partition=nope", "invalid partition"), ("--no-such-option", "unrecognized option")],
)
def test_sbatch_says_why(here: SlurmBench, slurm: SmallSlurm, word: str, said: str) -> None:
    submission = replace(here.submission(new_run()), sbatch_args=(word,))
    with pytest.raises(ToolError, match=said):
        here.queue.submit(submission)
    assert living(slurm, submission.run) == []


@pytest.mark.parametrize("name", ["../out.sh", "/etc/cron.d/x", "a/../../b", "", "a//b", "./a"])
def test_a_file_cannot_leave_the_folder(here: SlurmBench, name: str) -> None:
    submission = replace(here.submission(new_run()), files=(File(name, "x"),))
    with pytest.raises(UsageError, match="not a plain relative path"):
        here.queue.submit(submission)
    assert not Path(submission.folder).exists()


def test_files_arrive_as_they_are(here: SlurmBench) -> None:
    submission = replace(here.submission(new_run()), hold=True)
    text = "ü'\"$(x)\r\n\tno newline at the end" + "x" * 300_000  # more than an argument may hold
    files = (*submission.files, File("deep/er/code.py", text), File("run.sh", "#!/bin/sh\n", executable=True))
    here.queue.submit(replace(submission, files=files))
    folder = Path(submission.folder)
    assert (folder / "deep/er/code.py").read_bytes() == text.encode()
    assert (folder / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (folder / "run.json").stat().st_mode & 0o777 == 0o644
    assert list(folder.rglob("*.part")) == []


def test_a_folder_that_cannot_be_made(here: SlurmBench) -> None:
    submission = replace(here.submission(new_run()), folder="/proc/trnctl/run")
    with pytest.raises(ToolError, match="cannot be made") as caught:
        here.queue.submit(submission)
    assert "df -h" in caught.value.remedy


def test_a_user_with_odd_settings(slurm: SmallSlurm, here: SlurmBench) -> None:
    """Slurm's commands read formats from the environment; a user's may not disturb ours."""
    odd = {"SQUEUE_FORMAT": "%i", "SINFO_FORMAT": "%N", "SLURM_TIME_FORMAT": "relative", "SQUEUE_STATES": "COMPLETED"}
    bench = SlurmBench(LocalShell({**slurm.environ, **odd, "TZ": "Asia/Tokyo"}), Path(here.runs_folder))
    submission = bench.submission(new_run(), seconds=30)
    bench.queue.submit(submission)
    picture = bench.queue.observe(bench.runs_folder)
    ours = {job.stage: job for job in picture.jobs if job.run == submission.run}
    assert set(ours) == {"compile", "train"}
    starts = ours["compile"].starts
    assert starts is None or abs((starts - picture.at).total_seconds()) < 600


def test_a_login_script_that_prints(slurm: SmallSlurm, here: SlurmBench) -> None:
    """It may say what it likes, even a line that looks a little like ours."""

    class Chatty(LocalShell):
        def run(self, argv, *, stdin=None, timeout):  # type: ignore[no-untyped-def]  # the parent's types hold
            done = super().run(argv, stdin=stdin, timeout=timeout)
            return replace(done, stdout=f'Welcome!\ntrnctl is great\ntrnctl {{"hello": 1}}\n{done.stdout}bye\n')

    bench = SlurmBench(Chatty(slurm.environ), Path(here.runs_folder))
    assert bench.queue.observe(bench.runs_folder).slurm_version


def test_a_cancelled_running_job_writes_its_own_end(here: SlurmBench) -> None:
    submission = here.submission(new_run(), seconds=30)
    here.queue.submit(submission)
    for event in here.queue.follow(submission.run, here.runs_folder):
        if isinstance(event, LogLine):
            break
    assert len(here.queue.cancel(submission.run, here.runs_folder)) == 2
    here.settle(submission.run)
    [record] = here.queue.observe(here.runs_folder, run=submission.run).runs
    ended = record.ended["compile"]
    assert (ended["exit_code"], ended["state"]) == (143, "cancelled"), "its own note, and Slurm's word"
    assert record.ended["train"]["state"] == "cancelled"
    assert (Path(submission.folder) / "ended" / f".cancelled-{record.jobs['compile']}").exists()


def test_what_slurm_will_forget_is_written_down(here: SlurmBench, slurm: SmallSlurm) -> None:
    """A node goes down under a job that has no exit trap and may not be requeued."""
    submission = here.submission(new_run())
    begin = f"python3 {submission.folder}/results.py begin compile\n"
    script = File("compile.sbatch", f"#!/bin/bash\n#SBATCH --no-requeue --output=/dev/null\n{begin}sleep 60\n")
    others = (File("results.py", templates.read("job/results.py")), File("run.json", '{"stages": ["compile"]}'))
    submission = replace(submission, files=(*submission.files, script, *others))
    here.queue.submit(submission)
    for event in here.queue.follow(submission.run, here.runs_folder):
        if isinstance(event, StageState) and event.state == "running":
            break
    jobs = here.queue.observe(here.runs_folder, run=submission.run).jobs
    [node] = [job.node_list for job in jobs if job.run == submission.run and job.state == "running"]
    attempts = Path(submission.folder) / "logs" / "compile" / "attempts.json"
    # The ledger counts in whole seconds.
    eventually(lambda: attempts.is_file() and time.time() - attempts.stat().st_mtime > 2, "the attempt is written down")
    slurm.call("scontrol", "update", f"nodename={node}", "state=down", "reason=power")
    *_, last = here.queue.follow(submission.run, here.runs_folder)
    assert last == RunOver({"compile": "node-fail", "train": "cancelled"})
    [record] = here.queue.observe(here.runs_folder, run=submission.run).runs
    note = json.loads((Path(submission.folder) / "ended" / "compile.json").read_text())
    assert (note["slurm_state"], note["job"]) == ("NODE_FAIL", record.jobs["compile"])
    assert (record.ended["compile"]["state"], record.ended["compile"]["by"]) == ("node-fail", "slurm")
    [attempt] = json.loads(attempts.read_text())
    assert attempt["ended"] is not None, "a node that was lost has cost until then"
    assert record.results is not None
    assert cast("Any", record.results["ledger"])[0]["nodes"] == 1
    slurm.wait_for_nodes()


def test_follow_from_the_end_and_one_node(here: SlurmBench) -> None:
    submission = replace(here.submission(new_run()), hold=True)
    here.queue.submit(submission)
    logs = Path(submission.folder) / "logs" / "train"
    (logs / "node-0.log").write_text("".join(f"line {number}\n" for number in range(1000)))
    (logs / "node-3.log").write_bytes(b"one\rtwo\r\nthree\xff\nno end")
    texts = [
        event.text
        for event in here.queue.follow(submission.run, here.runs_folder, stage="train", from_start=False, wait=False)
        if isinstance(event, LogLine)
    ]
    assert texts[-1] == "line 999"
    assert 100 < len(texts) < 400
    whole = here.queue.follow(submission.run, here.runs_folder, stage="train", node=3, wait=False)
    assert [e.text for e in whole if isinstance(e, LogLine)] == ["one", "two", "three�", "no end"]


def test_a_broken_connection_is_taken_up_where_it_broke(here: SlurmBench, slurm: SmallSlurm) -> None:
    class Flaky(LocalShell):
        """Loses the connection after each third line, and each odd try before the first."""

        tries = 0

        def stream(self, argv, *, stdin=None):  # type: ignore[no-untyped-def]  # the parent's types hold
            Flaky.tries += 1
            for number, line in enumerate(super().stream(argv, stdin=stdin)):
                if number == (5 if Flaky.tries < 6 else 10_000):
                    raise ConnectionLost("gone", remedy="again")
                yield line

    submission = here.submission(new_run(), seconds=0.5)
    here.queue.submit(submission)
    here.settle(submission.run)
    (Path(submission.folder) / "logs/train/node-0.log").write_text("".join(f"line {n}\n" for n in range(20)))
    events = list(SlurmQueue(Flaky(slurm.environ), SCRIPT).follow(submission.run, here.runs_folder))
    texts = [event.text for event in events if isinstance(event, LogLine) and event.stage == "train"]
    assert texts == [f"line {n}" for n in range(20)]
    assert Flaky.tries > 1
    states = [event for event in events if isinstance(event, StageState)]
    assert len(states) == len(set(states))


def test_no_listener_ends_the_follower(here: SlurmBench, slurm: SmallSlurm, sshd: SmallSshd) -> None:
    """Over ssh nothing tells a quiet follower that its reader is gone, but its closed stdout."""
    submission = replace(here.submission(new_run()), hold=True)
    here.queue.submit(submission)
    over_ssh = SlurmQueue(SshShell(LocalShell(), "127.0.0.1", sshd.options()), SCRIPT)
    events = over_ssh.follow(submission.run, here.runs_folder)
    next(events)
    assert followers(slurm), "the follower is not there at all"
    events.close()  # type: ignore[attr-defined]  # it is a generator
    for _ in range(40):
        if not followers(slurm):
            return
        time.sleep(0.1)
    pytest.fail("the follower outlived its reader by four seconds")


def followers(slurm: SmallSlurm) -> list[int]:
    """The agents that follow a run of this Slurm, by their command line; other clusters on this machine have theirs."""
    found = []
    ours = f"SLURM_CONF={slurm.environ['SLURM_CONF']}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environ = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[-2:-1] == [b"follow"] and b"-I" in words and ours in environ:
            found.append(int(folder.name))
    return found


def test_slurm_that_is_down_is_told_at_once(tmp_path_factory: pytest.TempPathFactory, slurm: SmallSlurm) -> None:
    """squeue alone would hang for half a minute."""
    slurm.wait_for_nodes()  # a job of the last test would run again from the state that the controller saved
    time.sleep(2)
    slurm.kill_controller()
    try:
        bench = SlurmBench(LocalShell(slurm.environ), tmp_path_factory.mktemp("runs"))
        began = time.monotonic()
        with pytest.raises(ToolError, match="controller does not answer") as caught:
            bench.queue.observe(bench.runs_folder)
        with pytest.raises(ToolError, match="controller does not answer"):
            bench.queue.submit(bench.submission(new_run()))
        assert time.monotonic() - began < 9
        assert "slurmctld" in caught.value.remedy
    finally:
        slurm.start_controller()
        slurm.wait_for_nodes()


# ------------------------------------------------------------------------------------- over a scripted shell


SUBMISSION = two_stages("demo-1", "/fsx/trnctl/runs", (File("compile.sbatch", "x"), File("train.sbatch", "y")))
DONE = 'trnctl {"ok": {"run": "demo-1", "folder": "/f", "jobs": {"compile": "1", "train": "2"}, "again": %s}}\n'


def test_submit_is_one_command() -> None:
    with ScriptedShell() as shell:
        shell.on("submit", stdout=DONE % "false")
        SlurmQueue(shell, SCRIPT).submit(SUBMISSION)
    [call] = shell.calls
    assert max(len(word) for word in call.argv) < 200
    assert call.stdin is not None
    length, _, rest = call.stdin.partition("\n")
    assert json.loads(rest.encode()[int(length) :])["run"] == "demo-1"


def test_an_answer_that_was_lost_on_the_way_is_asked_for_again() -> None:
    lost = ConnectionLost("The connection broke.", remedy="Try again.", reached=True)
    with ScriptedShell() as shell:
        shell.on("submit", error=lost).on("submit", stdout=DONE % "true")
        assert SlurmQueue(shell, SCRIPT).submit(SUBMISSION).again


def test_a_head_node_that_was_never_reached_is_not_tried_twice() -> None:
    with ScriptedShell() as shell:
        shell.on("submit", error=ConnectionLost("Refused.", remedy="Wait.", reached=False))
        with pytest.raises(ConnectionLost):
            SlurmQueue(shell, SCRIPT).submit(SUBMISSION)
    assert len(shell.calls) == 1


def test_no_python_there() -> None:
    with ScriptedShell() as shell:
        shell.on("observe", returncode=127, stderr="/bin/sh: 1: exec: python3: not found\n")
        with pytest.raises(ToolError, match="no python3"):
            SlurmQueue(shell, SCRIPT).observe("/fsx/runs")


def test_a_crash_there_quotes_its_last_line() -> None:
    with ScriptedShell() as shell:
        shell.on("observe", returncode=1, stderr="Traceback (most recent call last):\n  …\nMemoryError\n")
        with pytest.raises(ToolError, match=r"exit code 1.*MemoryError"):
            SlurmQueue(shell, SCRIPT).observe("/fsx/runs")


def test_no_slurm_there(tmp_path: Path) -> None:
    empty = LocalShell({"PATH": str(tmp_path)})
    with pytest.raises(ToolError, match="not installed on the head node"):
        SlurmQueue(empty, SCRIPT).cancel(_made(tmp_path), str(tmp_path))


def _made(folder: Path) -> str:
    (folder / "run-1").mkdir()
    return "run-1"


def test_a_follow_that_is_refused() -> None:
    refused = 'trnctl {"error": {"kind": "no-run", "message": "There is no submitted run x in /f.", "said": ""}}\n'
    with ScriptedShell() as shell:
        shell.on("follow", stdout=refused)
        with pytest.raises(NotFoundError, match="no submitted run x"):
            list(SlurmQueue(shell, SCRIPT).follow("x", "/f"))


def test_a_follow_that_only_breaks_gives_up() -> None:
    with ScriptedShell() as shell:
        shell.on("follow", times=3, stdout="")
        with pytest.raises(ConnectionLost, match="stopped sending"):
            list(SlurmQueue(shell, SCRIPT).follow("x", "/f"))
    assert len(shell.calls) == 3


def test_runs_are_found_where_the_mount_is_not_known(here: SlurmBench) -> None:
    submission = here.submission("found-by-pattern", seconds=30)
    here.queue.submit(submission)
    above = Path(here.runs_folder).parent
    patterns = f"{above}/nothing-*/runs:{above}/*"
    assert [record.run for record in here.queue.observe(patterns).runs if record.run == submission.run] == [
        submission.run
    ]
    assert len(here.queue.cancel(submission.run, patterns)) == 2


def test_the_log_of_a_run_that_is_over_stays_where_it_is(here: SlurmBench) -> None:
    submission = here.submission("over-and-quiet")
    here.queue.submit(submission)
    here.settle(submission.run)
    [record] = [one for one in here.queue.observe(here.runs_folder).runs if one.run == submission.run]
    assert record.logs == {}
    [whole] = here.queue.observe(here.runs_folder, run=submission.run).runs
    assert whole.logs


def test_a_name_that_another_run_has_is_not_taken_for_this_one(here: SlurmBench) -> None:
    first = here.submission("same-name", seconds=30)
    here.queue.submit(first)
    assert here.queue.submit(first).again
    other = here.submission("same-name", seconds=31)
    with pytest.raises(UsageError, match="There is a run same-name already"):
        here.queue.submit(other)


def test_what_a_run_needs_is_looked_for_before_nodes_are_asked_for(here: SlurmBench, tmp_path: Path) -> None:
    needed = tmp_path / "code" / "train.py"
    submission = replace(
        here.submission("needy", seconds=30), needs=(Need(str(needed), "the training code", "Fetch it: git clone x"),)
    )
    with pytest.raises(RefusedError, match="The training code is not on the cluster's shared storage") as caught:
        here.queue.submit(submission)
    assert "git clone x" in caught.value.remedy
    needed.parent.mkdir()
    needed.touch()
    assert not here.queue.submit(submission).again


def test_a_run_is_for_its_owners_eyes_and_the_folder_of_all_runs_for_everyone(here: SlurmBench) -> None:
    """The user's variables stand in the script, and one may be a token; other users submit runs beside this one."""
    submission = here.submission("secret", seconds=30)
    here.queue.submit(submission)
    folder = Path(submission.folder)
    assert (folder / "train.sbatch").stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_mode & 0o777 == 0o700
    beside = replace(here.submission("secret-2"), folder=f"{here.runs_folder}/new/runs/secret-2")
    here.queue.submit(beside)
    assert Path(here.runs_folder, "new", "runs").stat().st_mode & 0o7777 == 0o1777


@pytest.mark.slow
def test_a_run_that_stays_held_is_not_called_submitted(here: SlurmBench, slurm: SmallSlurm) -> None:
    submission = replace(here.submission("held-for-ever", seconds=30), hold=True)
    here.queue.submit(submission)
    slurm.kill_controller()
    try:
        with pytest.raises(ToolError):
            here.queue.submit(replace(submission, hold=False))
    finally:
        slurm.start_controller()
    assert here.queue.submit(replace(submission, hold=False)).again
    assert json.loads((Path(submission.folder) / "submitted.json").read_text())["released"]


def test_a_run_that_has_used_up_its_cap_is_not_resumed(here: SlurmBench) -> None:
    submission = replace(here.submission(new_run()), hold=True)
    here.queue.submit(submission)
    here.queue.cancel(submission.run, here.runs_folder)
    here.settle(submission.run)
    folder = Path(submission.folder)
    (folder / "run.json").write_text('{"max_node_seconds": 7200, "max_cost_usd": 43.0, "nodes": 2}')
    (folder / "results.json").write_text('{"node_seconds": 7100}')
    with pytest.raises(RefusedError, match=r"used up its cap of \$43\.00") as caught:
        here.queue.resume(submission.run, here.runs_folder)
    assert "--from RUN" in caught.value.remedy

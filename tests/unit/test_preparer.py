"""The preparer on the head node: what it fetches, how it goes on, what it says when something cannot be had."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.preparing import Files, Run, archive, wheel
from trnctl.ports import Need

SHARDS = {f"shards/part_{number}.hdf5": f"{number}" for number in range(4)}
TAR = archive(SHARDS)


@pytest.fixture
def files() -> Iterator[Files]:
    with Files({"/bucket/shards.tar": TAR, "/bucket/words.bin": b"w" * 5000}).serving() as served:
        yield served


def data(root: Path, url: str, *, files: int = 4, **fetch: object) -> Need:
    path = str(root / "trnctl/data/shards")
    wanted = {"kind": "archive", "target": path, "url": url, **fetch}
    return Need(path, "the data set shards", "", check={"files": files, "match": "*.hdf5"}, fetch=wanted)


def code(root: Path, repository: str, commit: str) -> Need:
    target = str(root / f"trnctl/src/code-{commit[:12]}")
    fetch = {"kind": "git", "target": target, "repository": repository, "commit": commit}
    return Need(f"{target}/train.py", "the training code", "", fetch=fetch)


@pytest.fixture
def repository(tmp_path: Path) -> tuple[str, str]:
    """A repository of two commits: its path, and its first commit."""
    folder = tmp_path / "origin"
    commits = []
    for text in ("first", "second"):
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder)]
        if not folder.exists():
            subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=30)
        (folder / "train.py").write_text(text)
        subprocess.run([*git, "add", "."], check=True, timeout=30)
        subprocess.run([*git, "commit", "-q", "-m", text], check=True, timeout=30)
        told = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, timeout=30)
        commits.append(told.stdout.strip())
    return str(folder), commits[0]


# ------------------------------------------------------------------------------------------------------ it works


def test_it_fetches_what_is_missing_and_lets_the_job_go(
    tmp_path: Path, files: Files, repository: tuple[str, str]
) -> None:
    run = Run(tmp_path, [code(tmp_path, *repository), data(tmp_path, f"{files.url}/bucket/shards.tar")])
    assert run.prepare() == 0
    assert (tmp_path / f"trnctl/src/code-{repository[1][:12]}/train.py").read_text() == "first"
    assert sorted(path.name for path in (tmp_path / "trnctl/data/shards").iterdir()) == [
        "part_0.hdf5", "part_1.hdf5", "part_2.hdf5", "part_3.hdf5",
    ]  # fmt: skip
    assert run.asked == ["scontrol release 7"]
    assert run.ended["exit_code"] == 0
    assert json.loads((run.folder / "submitted.json").read_text())["released"] is True
    assert not [name for name in run.left() if "download" in name or "unpacked" in name or ".part" in name]


def test_what_is_there_is_not_fetched_again(tmp_path: Path, files: Files) -> None:
    need = data(tmp_path, f"{files.url}/bucket/shards.tar")
    assert Run(tmp_path, [need], "first").prepare() == 0
    before = len(files.asked)
    assert Run(tmp_path, [need], "second").prepare() == 0
    assert len(files.asked) == before == 1


def test_a_run_that_is_to_be_held_stays_held(tmp_path: Path, files: Files) -> None:
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")], hold=True)
    assert run.prepare() == 0
    assert run.asked == []


def test_s3_is_asked_at_the_endpoint_that_is_set(tmp_path: Path, files: Files) -> None:
    run = Run(tmp_path, [data(tmp_path, "s3://bucket/shards.tar")])
    assert run.prepare(AWS_ENDPOINT_URL=files.url) == 0


def test_an_archive_without_a_folder_of_its_own_is_unpacked_into_one(tmp_path: Path, files: Files) -> None:
    files.content["/flat.tar"] = archive({f"part_{number}.hdf5": "x" for number in range(4)})
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/flat.tar")])
    assert run.prepare() == 0
    assert (tmp_path / "trnctl/data/shards/part_3.hdf5").is_file()


def test_a_folder_of_s3_is_fetched_object_by_object(tmp_path: Path, files: Files) -> None:
    names = ["shards/part_0.hdf5", "shards/deep/part_1.hdf5"]
    entries = "".join(f"<Contents><Key>{name}</Key><Size>3</Size></Contents>" for name in ["shards/", *names])
    files.content["/bucket/"] = f'<R xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{entries}</R>'.encode()
    files.content.update({f"/bucket/{name}": b"abc" for name in names})
    need = data(tmp_path, "s3://bucket/shards/", kind="folder", files=2)
    there = tmp_path / "trnctl/data/shards.objects/part_0.hdf5"
    there.parent.mkdir(parents=True)
    there.write_text("xyz")  # of a try that broke off
    assert Run(tmp_path, [need]).prepare(AWS_ENDPOINT_URL=files.url) == 0
    assert (tmp_path / "trnctl/data/shards/deep/part_1.hdf5").read_text() == "abc"
    assert (tmp_path / "trnctl/data/shards/part_0.hdf5").read_text() == "xyz"
    files.content["/bucket/"] = b"<R><Contents><Key>shards/../../x</Key><Size>3</Size></Contents></R>"
    other = data(tmp_path, "s3://bucket/shards/", kind="folder", target=str(tmp_path / "trnctl/data/other"))
    run = Run(tmp_path, [replace(other, path=str(tmp_path / "trnctl/data/other"))], "second")
    assert run.prepare(AWS_ENDPOINT_URL=files.url) == 1
    assert "would be written outside" in run.ended["reason"]


def test_one_file_is_kept_as_it_is(tmp_path: Path, files: Files) -> None:
    path = str(tmp_path / "trnctl/data/words.bin")
    sha256 = hashlib.sha256(b"w" * 5000).hexdigest()
    fetch = {"kind": "file", "target": path, "url": f"{files.url}/bucket/words.bin", "sha256": sha256, "bytes": 5000}
    run = Run(tmp_path, [Need(path, "the words", "", fetch=fetch)])
    assert run.prepare() == 0
    assert Path(path).read_bytes() == b"w" * 5000


def test_a_model_is_laid_out_as_the_hub_lays_it_out(tmp_path: Path, files: Files) -> None:
    revision = "a" * 40
    files.content[f"/bert/resolve/{revision}/config.json"] = b"{}"
    target = tmp_path / "trnctl/hub/hub/models--bert"
    fetch = {"kind": "hub", "target": str(target), "model": "bert", "revision": revision, "files": ["config.json"]}
    run = Run(tmp_path, [Need(f"{target}/snapshots/{revision}/.whole", "the model bert", "", fetch=fetch)])
    assert run.prepare(HF_ENDPOINT=files.url) == 0
    assert (target / "refs/main").read_text() == revision
    assert (target / "snapshots" / revision / "config.json").read_text() == "{}"


@pytest.mark.slow
def test_packages_stand_on_the_environment_below(tmp_path: Path) -> None:
    """A program of the environment below is started with the Python that sees the packages of both."""
    base = tmp_path / "base"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(base)], check=True, timeout=60)
    (place,) = base.glob("lib/python*/site-packages")
    (place / "below.py").write_text("word = 'below'\n")
    (base / "bin/torchrun").write_text(f"#!{base}/bin/python\nimport below, above\nprint(below.word, above.word)\n")
    (base / "bin/torchrun").chmod(0o755)
    (base / "bin/compiler").write_text("#!/bin/sh\necho compiled\n")
    (base / "bin/compiler").chmod(0o755)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    name, content = wheel("above", "1.0", "word = 'above'\n")
    (wheels / name).write_bytes(content)
    target = tmp_path / "trnctl/packages/x"
    fetch = {"kind": "environment", "target": str(target), "base": str(base), "packages": ["above==1.0"]}
    need = Need(f"{target}/complete", "the environment", "", fetch=fetch)
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    assert Run(tmp_path, [need]).prepare(**offline) == 0
    told = subprocess.run([str(target / "bin/torchrun")], check=True, capture_output=True, text=True, timeout=60)
    assert told.stdout == "below above\n"
    assert (target / "bin/compiler").resolve() == base / "bin/compiler"
    missing = replace(
        need, fetch={**fetch, "packages": ["nowhere==1.0"], "target": str(target) + "2"}, path="/nowhere/x"
    )
    run = Run(tmp_path, [missing], "second")
    assert_given_up(run, "package", "nowhere==1.0", **offline)


# ------------------------------------------------------------------------------------------------- it goes on


def test_a_connection_that_breaks_goes_on_where_it_broke(tmp_path: Path, files: Files) -> None:
    files.breaks = [3000]
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")])
    assert run.prepare() == 0
    assert files.asked == [("/bucket/shards.tar", ""), ("/bucket/shards.tar", "bytes=3000-")]


def test_a_source_that_changed_in_between_is_fetched_from_its_beginning(tmp_path: Path, files: Files) -> None:
    part = tmp_path / "trnctl/data/shards.download"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"old" * 500)
    part.with_name("shards.download.json").write_text(json.dumps({"etag": '"another"', "total": 99999}))
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")])
    assert run.prepare() == 0


def test_a_preparer_that_was_killed_goes_on_where_it_was(tmp_path: Path, files: Files) -> None:
    files.gate.clear()
    files.breaks = [4000]
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")])
    part = tmp_path / "trnctl/data/shards.download"
    with run.start() as process:
        until(lambda: part.exists() and part.stat().st_size == 0 and files.asked != [], "the first byte")
        files.gate.set()
        until(lambda: part.stat().st_size >= 4000 or not part.exists(), "some bytes")
        process.kill()
    assert run.asked == []
    assert run.prepare() == 0
    assert run.asked == ["scontrol release 7"]


def test_two_runs_that_need_the_same_fetch_it_once(tmp_path: Path, files: Files) -> None:
    files.gate.clear()
    need = data(tmp_path, f"{files.url}/bucket/shards.tar")
    first, second = Run(tmp_path, [need], "first"), Run(tmp_path, [need], "second")
    with first.start() as one:
        until(lambda: files.asked != [], "the first one fetches")
        with second.start() as other:
            until(lambda: "waits for the preparer of first" in second.log, "the second one waits")
            files.gate.set()
            assert (one.wait(30), other.wait(30)) == (0, 0)
    assert len(files.asked) == 1
    assert (first.asked, second.asked) == (["scontrol release 7"], ["scontrol release 7"])


def test_a_run_has_one_preparer(tmp_path: Path, files: Files) -> None:
    files.gate.clear()
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")])
    with run.start() as one:
        until(lambda: files.asked != [], "it fetches")
        assert run.prepare() == 0
        assert "another preparer of this run lives" in run.log
        files.gate.set()
        assert one.wait(30) == 0
    assert run.asked == ["scontrol release 7"]


# --------------------------------------------------------------------------------------------- it cannot be had


def assert_given_up(run: Run, kind: str, *words: str, **variables: str) -> None:
    """The preparer says why, and cancels the run's jobs; nothing half lies anywhere."""
    assert run.prepare(**variables) == 1
    assert run.ended["kind"] == kind
    for word in words:
        assert word in run.ended["reason"]
    assert run.ended["remedy"]
    assert run.asked == ["scancel 7"]
    assert f"failed: {kind}: " in run.log
    assert not (run.shared / "data/shards").exists()


def test_another_checksum_leaves_nothing_behind(tmp_path: Path, files: Files) -> None:
    wrong = hashlib.sha256(b"another").hexdigest()
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar", sha256=wrong)])
    assert_given_up(run, "checksum", f"not {wrong}")
    assert run.left() == []


def test_another_length_leaves_nothing_behind(tmp_path: Path, files: Files) -> None:
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar", bytes=17)])
    assert_given_up(run, "checksum", "not 17")
    assert run.left() == []


@pytest.mark.parametrize("content", [TAR[:700], b"this is no archive", archive({"../escape": "x"})])
def test_what_is_no_whole_archive_leaves_nothing_behind(tmp_path: Path, files: Files, content: bytes) -> None:
    files.content["/broken.tar"] = content
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/broken.tar")])
    assert run.prepare() == 1
    assert run.ended["kind"] in {"checksum", "incomplete"}
    assert run.left() == []
    assert not (tmp_path / "trnctl/escape").exists()


def test_too_few_files_are_told(tmp_path: Path, files: Files) -> None:
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar", files=5)])
    assert_given_up(run, "incomplete", "has 4 files of at least 5")
    assert run.left() == []


def test_a_folder_that_somebody_put_there_half_is_not_touched(tmp_path: Path, files: Files) -> None:
    half = tmp_path / "trnctl/data/shards"
    half.mkdir(parents=True)
    (half / "part_0.hdf5").touch()
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")])
    assert run.prepare() == 1
    assert (run.ended["kind"], files.asked) == ("other-data", [])
    assert [path.name for path in half.iterdir()] == ["part_0.hdf5"]


def test_what_does_not_exist_or_may_not_be_read_is_told(tmp_path: Path, files: Files) -> None:
    assert_given_up(Run(tmp_path, [data(tmp_path, f"{files.url}/gone.tar")], "absent"), "absent", "gone.tar")
    files.status["/bucket/shards.tar"] = 403
    assert_given_up(Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")], "private"), "access", "403")


def test_a_private_bucket_is_asked_with_the_nodes_own_signature(tmp_path: Path, files: Files) -> None:
    files.status["/bucket/shards.tar"] = 403
    files.content["/signed.tar"] = TAR
    tools = tmp_path / "aws"
    tools.mkdir()
    (tools / "aws").write_text(f'#!/bin/sh\n[ "$3" = s3://bucket/shards.tar ] && echo "{files.url}/signed.tar?s=1"\n')
    (tools / "aws").chmod(0o755)
    run = Run(tmp_path, [data(tmp_path, "s3://bucket/shards.tar")])
    shutil.copy(tools / "aws", tmp_path / "tools/aws")
    assert run.prepare(AWS_ENDPOINT_URL=files.url) == 0
    assert "signed.tar" not in run.log


def test_no_aws_command_is_told_where_one_is_needed(tmp_path: Path, files: Files) -> None:
    files.status["/bucket/shards.tar"] = 403
    run = Run(tmp_path, [data(tmp_path, "s3://bucket/shards.tar")])
    path = f"{tmp_path / 'tools'}:/usr/bin:/bin"
    assert shutil.which("aws", path=path) is None
    assert_given_up(run, "access", "aws command", PATH=path, AWS_ENDPOINT_URL=files.url)


def test_too_little_space_is_told_before_anything_is_fetched(tmp_path: Path, files: Files) -> None:
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")])
    (run.folder / "prepare/shutil.py").write_text(
        "from collections import namedtuple\nfrom importlib.machinery import PathFinder\n"
        "import importlib.util, sysconfig\n"
        "spec = PathFinder.find_spec('shutil', [sysconfig.get_paths()['stdlib']])\n"
        "real = importlib.util.module_from_spec(spec); spec.loader.exec_module(real)\n"
        "globals().update({k: v for k, v in vars(real).items() if not k.startswith('__')})\n"
        "disk_usage = lambda path: namedtuple('usage', 'total used free')(100, 99, 1)\n"
    )
    assert_given_up(run, "space", "GiB free")
    assert [name for name in run.left() if not name.endswith(".json")] == []


def test_a_disk_that_fills_up_on_the_way_cancels_the_jobs_and_is_told(tmp_path: Path, files: Files) -> None:
    """Its log cannot be written either: it lies on the same disk. What was fetched leaves its room to running jobs."""
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")])
    (tmp_path / "trnctl/data").mkdir(parents=True)
    (tmp_path / "trnctl/data/shards.download").symlink_to("/dev/full")
    (run.folder / "prepare.log").symlink_to("/dev/full")
    with run.start() as process:
        assert process.wait(60) == 1
    assert run.asked == ["scancel 7"]
    assert run.ended["kind"] == "space"
    assert "no space is left" in run.ended["reason"]
    assert run.ended["remedy"]
    assert run.left() == []


def test_a_network_that_is_down_is_told(tmp_path: Path) -> None:
    run = Run(tmp_path, [data(tmp_path, "http://127.0.0.1:9/shards.tar")])
    script = run.folder / "prepare/download.py"
    script.write_text(script.read_text().replace("TRIES, PAUSE, TIMEOUT = 8, 2, 60", "TRIES, PAUSE, TIMEOUT = 2, 0, 5"))
    assert_given_up(run, "network", "cannot be reached")


def test_no_git_is_told(tmp_path: Path, repository: tuple[str, str]) -> None:
    run = Run(tmp_path, [code(tmp_path, *repository)])
    tools = tmp_path / "tools"
    for name in ("sh", "basename"):
        (tools / name).symlink_to(str(shutil.which(name)))
    assert_given_up(run, "tool", "git is not installed", PATH=str(tools))


def test_a_commit_that_does_not_exist_is_told(tmp_path: Path, repository: tuple[str, str]) -> None:
    assert_given_up(Run(tmp_path, [code(tmp_path, repository[0], "f" * 40)]), "absent", "git fetch failed")


def test_a_repository_that_does_not_exist_is_told(tmp_path: Path) -> None:
    assert_given_up(Run(tmp_path, [code(tmp_path, str(tmp_path / "nothing"), "f" * 40)]), "absent", "git fetch failed")


def test_a_repository_that_may_not_be_read_is_told(tmp_path: Path, files: Files) -> None:
    files.status["/private.git/info/refs"] = 401
    assert_given_up(Run(tmp_path, [code(tmp_path, f"{files.url}/private.git", "f" * 40)]), "access", "git fetch failed")


def test_a_run_that_was_cancelled_is_not_prepared(tmp_path: Path, files: Files) -> None:
    run = Run(tmp_path, [data(tmp_path, f"{files.url}/bucket/shards.tar")])
    (run.state / "no-jobs").touch()
    assert run.prepare() == 1
    assert (files.asked, run.asked) == ([], [])
    assert "no longer in the queue" in run.ended["reason"]


def test_a_fault_of_its_own_cancels_too(tmp_path: Path) -> None:
    target = str(tmp_path / "trnctl/x")
    run = Run(tmp_path, [Need(target, "a thing", "", fetch={"kind": "magic", "target": target})])
    assert_given_up(run, "fault", "KeyError")


def until(holds: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Wait until something holds."""
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, f"{seconds:g} s, and still not: {what}"
        time.sleep(0.02)


def test_the_first_job_of_a_run_that_was_resumed_is_let_go(tmp_path: Path, files: Files) -> None:
    """Its compile job is over, and still stands in submitted.json."""
    need = data(tmp_path, f"{files.url}/bucket/shards.tar")
    run = Run(tmp_path, [need], jobs={"compile": "6", "train": "7"}, stages=["train"])
    assert run.prepare() == 0
    assert run.asked == ["scontrol release 7"]


def test_a_token_is_given_to_no_other_host(tmp_path: Path) -> None:
    """The hub sends large files from elsewhere."""
    told: dict[str, str | None] = {}

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            told[name] = self.headers.get("Authorization")
            port = self.connection.getsockname()[1]
            there = {"config.json": f"http://127.0.0.1:{port}/here", "weights.bin": f"http://localhost:{port}/there"}
            self.send_response(302 if name in there else 200)
            self.send_header("Location", there.get(name, ""))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    target, names = tmp_path / "trnctl/hub/hub/models--bert", ["config.json", "weights.bin"]
    fetch = {"kind": "hub", "target": str(target), "model": "bert", "revision": "a" * 40, "files": names}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run = Run(tmp_path, [Need(f"{target}/.whole", "the model bert", "", fetch=fetch)])
        try:
            assert run.prepare(HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}", HF_TOKEN="hf_x") == 0
        finally:
            server.shutdown()
    assert told == {"config.json": "Bearer hf_x", "here": "Bearer hf_x", "weights.bin": "Bearer hf_x", "there": None}


def test_an_answer_in_chunks_that_is_cut_off_is_asked_for_again(tmp_path: Path) -> None:
    asked = list[str]()

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            self.close_connection = True
            self.send_response(200)
            first = len(asked) == 1
            self.send_header(*(("Transfer-Encoding", "chunked") if first else ("Content-Length", "5")))
            self.end_headers()
            self.wfile.write(b"5\r\nwo" if first else b"words")

        def log_message(self, *_: object) -> None:
            pass

    path = str(tmp_path / "trnctl/data/words.bin")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        fetch = {"kind": "file", "target": path, "url": f"http://127.0.0.1:{server.server_port}/words.bin"}
        try:
            assert Run(tmp_path, [Need(path, "the words", "", fetch=fetch)]).prepare() == 0
        finally:
            server.shutdown()
    assert (Path(path).read_bytes(), len(asked)) == (b"words", 2)


NODE = Path(__file__).parents[2] / "templates" / "node"


def python(text: str, *words: str, **environment: str) -> str:
    """What a program prints that imports the head node's scripts."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(NODE)!r})\n{text}", *words],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=40, check=True,
    )  # fmt: skip
    return done.stdout


def test_a_git_whose_children_live_on_is_not_waited_for(tmp_path: Path) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\nsetsid sleep 60 &\nexec sleep 60\n")
    git.chmod(0o755)
    text = (
        "import clone\nclone.SECONDS = 1\n"
        "try: clone.git('/', 'fetch')\nexcept clone.Failed as failed: print(failed.message)\n"
    )
    assert "git fetch did not end" in python(text, PATH=f"{tmp_path}:{os.environ['PATH']}")


def test_without_locks_on_the_shared_storage_users_still_wait_for_each_other(tmp_path: Path) -> None:
    """A Lustre mounted without `flock`: the head node's own disk holds the lock, whoever asks for it."""
    text = """
import errno, fcntl, os, pathlib, folder
real, shared = fcntl.flock, sys.argv[1]
def flock(handle, how):
    if handle.name.startswith(shared):
        raise OSError(errno.ENOLCK, "no locks available")
    return real(handle, how)
fcntl.flock, place = flock, pathlib.Path(shared, "data.lock")
os.getuid = lambda: 1001
held = folder.locked(place, 0)
os.getuid = lambda: 1002
print(held is not None, folder.locked(place, 0))
held.close()
print(folder.locked(place, 0) is not None)
"""
    for name in ("shared", "local"):
        (tmp_path / name).mkdir()
    told = python(text, str(tmp_path / "shared"), TMPDIR=str(tmp_path / "local"))
    assert told.split() == ["True", "None", "True"]

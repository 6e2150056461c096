"""cache.py and tend.py, the scripts that look after compile caches on the head node and in jobs."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NODE = Path(__file__).parents[2] / "templates" / "node"
VERSION = "neuronxcc-2.26.1+ab"
SCRIPTS = ("s3", "objects", "cache", "tend")


@pytest.fixture(scope="module")
def scripts() -> Iterator[Any]:
    """Both scripts as modules: `tend`, with `tend.cache`."""
    for name in SCRIPTS:
        spec = importlib.util.spec_from_file_location(name, NODE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    yield sys.modules["tend"]
    for name in SCRIPTS:
        del sys.modules[name]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "trnctl/runs"
    folder.mkdir(parents=True)
    return folder


def cache_of(runs: Path) -> Path:
    return runs.parent / "cache/trn1/2.31.1"


def module(runs: Path, name: str, *files: str) -> str:
    folder = cache_of(runs) / VERSION / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in files or ("model.hlo_module.pb", "model.neff", "model.done"):
        (folder / file).write_text("x" * 10)
    return f"{VERSION}/{name}"


def ledger(scripts: Any, runs: Path, name: str, *graphs: str, state: str = "complete") -> None:
    scripts.cache.write_ledger(cache_of(runs), name, {"graphs": list(graphs), "state": state, "run": "r", "nodes": 4})


def living(runs: Path, run: str, fingerprint: str) -> str:
    (runs / run).mkdir()
    manifest = {"cache": str(cache_of(runs)), "fingerprint": fingerprint}
    (runs / run / "run.json").write_text(json.dumps(manifest))
    return f"5\x1fPENDING\x1fN/A\x1fubuntu\x1ftrnctl:{run}:train\n"


@pytest.mark.parametrize(
    ("files", "state"),
    [
        (("model.neff", "model.done"), "done"),
        (("model.neff", "model.done", "model.log"), "done"),  # it failed once, and was compiled then
        (("model.neff", "model.done", "model.hlo_module.pb.lock"), "locked"),
        (("model.hlo.pb", "model.log"), "failed"),
        (("model.hlo_module.pb",), "todo"),
        (("model.neff",), "damaged"),
        (("model.done",), "damaged"),
    ],
)
def test_the_state_of_a_graph(scripts: Any, runs: Path, files: tuple[str, ...], state: str) -> None:
    place = module(runs, "MODULE_1+a", *files)
    assert scripts.cache.Module(cache_of(runs) / place).state == state
    ledger(scripts, runs, "abc", place)
    assert scripts.cache.verdict(str(cache_of(runs)), "abc")[0] is (state == "done")


def test_an_empty_result_is_damaged_and_a_missing_folder_gone(scripts: Any, runs: Path) -> None:
    place = module(runs, "MODULE_1+a")
    (cache_of(runs) / place / "model.neff").write_text("")
    ledger(scripts, runs, "abc", place, f"{VERSION}/MODULE_2+a")
    whole, why = scripts.cache.verdict(str(cache_of(runs)), "abc")
    assert not whole
    assert (
        why
        == "2 of 2 graphs are not whole: MODULE_1+a is damaged: its model.neff or its model.done is missing, or empty"
    )
    (cache_of(runs) / place / "model.neff").write_text("x")
    assert scripts.cache.verdict(str(cache_of(runs)), "abc")[1].endswith("MODULE_2+a is gone")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"graphs": 5}', '{"graphs": [], "state": "complete"}'])
def test_a_ledger_that_says_nothing_proves_nothing(scripts: Any, runs: Path, text: str) -> None:
    ledger(scripts, runs, "abc")
    (cache_of(runs) / "ledger/abc.json").write_text(text)
    assert scripts.cache.verdict(str(cache_of(runs)), "abc")[0] is False
    assert scripts.cache.verdict("gs://bucket/cache", "abc")[0] is False
    scripts.look({}, [runs], "")


def test_look_tells_fingerprints_strays_and_locks(scripts: Any, runs: Path) -> None:
    ledger(scripts, runs, "abc", module(runs, "MODULE_1+a"), module(runs, "MODULE_2+a", "model.neff", "x.lock"))
    ledger(scripts, runs, "def", module(runs, "MODULE_3+a", "model.log"), state="partial")
    module(runs, "MODULE_9+a")
    answer = scripts.look({}, [runs], living(runs, "lives", "abc"))
    states = {entry["fingerprint"]: (entry["state"], entry["used_by"]) for entry in answer["entries"]}
    assert states == {"abc": ("locked", ["run lives (job 5)"]), "def": ("partial", [])}
    assert (answer["strays"], answer["stray_bytes"]) == (1, 10)
    assert answer["modules"] == {"done": 2, "locked": 1, "failed": 1}
    (lock,) = answer["locks"]
    assert (lock["graph"], lock["holder"]) == ("MODULE_2+a", ""), "a job that waits holds no lock"


def test_prune_leaves_graphs_that_others_have_and_what_is_used(scripts: Any, runs: Path) -> None:
    one, both, two = (module(runs, f"MODULE_{number}+a") for number in (1, 2, 3))
    ledger(scripts, runs, "one", one, both)
    ledger(scripts, runs, "two", both, two)
    request = {"fingerprints": ["one", "two"], "strays": True}
    answer = scripts.prune(request, [runs], living(runs, "lives", "two"))
    assert answer["removed"] == ["one"]
    assert answer["kept"] == [{"fingerprint": "two", "used_by": ["run lives (job 5)"]}]
    assert answer["bytes"] == 10
    there = [(cache_of(runs) / place).is_dir() for place in (one, both, two)]
    assert there == [False, True, True]
    assert scripts.prune(request, [runs], "")["removed"] == ["two"]
    assert not list((cache_of(runs) / VERSION).iterdir())


def test_a_ledger_cannot_lead_out_of_the_cache(scripts: Any, runs: Path) -> None:
    outside = runs.parent / "MODULE_1+a"
    outside.mkdir()
    ledger(scripts, runs, "evil", "../../../MODULE_1+a", "ledger")
    scripts.prune({"fingerprints": ["evil"]}, [runs], "")
    assert outside.is_dir()
    assert (cache_of(runs) / "ledger").is_dir()


COUNTING = """
import collections, importlib.util, json, pathlib, sys
told = collections.Counter()
for name in ("s3", "objects", "cache", "tend"):
    spec = importlib.util.spec_from_file_location(name, pathlib.Path(sys.argv[1]) / (name + ".py"))
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
sys.addaudithook(lambda event, words: told.update([event]) if event in ("open", "os.scandir", "os.listdir") else None)
"""
LOOK = """
answer = sys.modules["tend"].look({}, [pathlib.Path(sys.argv[2])], "")
print(json.dumps([answer["modules"], answer["entries"][0]["state"], told]))
"""
VERDICT = """
print(json.dumps([*sys.modules["cache"].verdict(sys.argv[2], "abc"), told]))
"""


def counted(code: str, folder: Path) -> Any:
    """What the script prints, which counts the folders and files that it opens."""
    argv = [sys.executable, "-c", COUNTING + code, str(NODE), str(folder)]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout)


@pytest.mark.parametrize("count", [200, 2000])
def test_verify_reads_folders_and_of_files_only_the_ledger(scripts: Any, runs: Path, count: int) -> None:
    ledger(scripts, runs, "abc", *(module(runs, f"MODULE_{number}+a") for number in range(count)))
    modules, state, told = counted(LOOK, runs)
    assert (modules, state) == ({"done": count}, "complete")
    assert told["open"] == 1
    assert told["os.scandir"] - count < 15, "one look at each graph's folder, and at the few above"


def test_a_cached_submit_looks_at_each_graph_of_its_fingerprint_once(scripts: Any, runs: Path) -> None:
    ledger(scripts, runs, "abc", *(module(runs, f"MODULE_{number}+a") for number in range(200)))
    for number in range(300):
        module(runs, f"MODULE_{number}+other")
    whole, _, told = counted(VERDICT, cache_of(runs))
    assert (whole, told) == (True, {"open": 1, "os.scandir": 200})


# ------------------------------------------------------------------------------------------------ another user

# The system's, as on a node: the one that runs the tests may lie where another user may not go.
PLACE = [shutil.which("python3", path="/usr/bin:/bin") or sys.executable, "-E", "cache.py", "place"]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may enter, with a run's scripts in it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "runs/r").mkdir(parents=True)
        for name in ("cache.py", "s3.py", "objects.py"):
            (folder / "runs/r" / name).write_text((NODE / name).read_text())
        (folder / "runs/r/run.json").write_text('{"fingerprint": "abc"}')
        (folder / "cache").mkdir()
        (folder / "cache").chmod(0o1777)
        yield folder


def place_of(shared: Path, *, another: bool) -> tuple[str, str]:
    """What `cache.py place` prints on stdout and stderr, as this user or as another."""
    who: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if another and os.geteuid() == 0 else {}
    name = "another" if another else "first"
    done = subprocess.run(
        [*PLACE, str(shared / "cache/trn1/2.31.1")],
        cwd=shared / "runs/r", capture_output=True, text=True, timeout=30, check=True,
        env={"LOGNAME": name, "PATH": "/usr/bin:/bin"}, **who,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


def test_a_second_user_compiles_beside_what_is_the_firsts_and_uses_it_where_it_is_whole(
    scripts: Any, shared: Path
) -> None:
    cache = shared / "cache/trn1/2.31.1"
    assert place_of(shared, another=True) == (str(cache), "")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (cache, cache.parent)} == {0o1777}
    first = cache / VERSION / "MODULE_1+a"
    first.mkdir(parents=True)
    (first / "model.hlo_module.pb").write_text("x")
    for folder in (first, first.parent):
        folder.chmod(0o555)  # who runs the tests need not be root; for another user this is what 755 is
    url, why = place_of(shared, another=True)
    assert url == str(cache / "users/another")
    assert Path(url).is_dir()
    assert "the other one is another user's to change" in why
    first.chmod(0o755)
    for name in ("model.neff", "model.done"):
        (first / name).write_text("x")
    scripts.cache.write_ledger(cache, "abc", {"graphs": [f"{VERSION}/MODULE_1+a"], "state": "complete", "run": "r"})
    assert place_of(shared, another=True) == (str(cache), "")
    first.parent.chmod(0o755)
    assert place_of(shared, another=False) == (str(cache), "")


def test_a_users_own_cache_is_looked_after_as_any_other(scripts: Any, runs: Path) -> None:
    mine = cache_of(runs) / "users/ana"
    graph = mine / VERSION / "MODULE_9+a"
    graph.mkdir(parents=True)
    for file in ("model.neff", "model.done"):
        (graph / file).write_text("x")
    scripts.cache.write_ledger(mine, "own", {"graphs": [f"{VERSION}/MODULE_9+a"], "state": "complete", "run": "r"})
    seen = scripts.look({}, [runs], "")
    assert [(one["fingerprint"], one["cache"], one["state"]) for one in seen["entries"]] == [
        ("own", str(mine), "complete")
    ]
    assert scripts.cache.within(str(mine), str(cache_of(runs)))
    assert not scripts.cache.within(str(cache_of(runs)) + "2", str(cache_of(runs)))


# ----------------------------------------------------------------------------------------------------------- in S3


class Bucket:
    """A bucket in memory; it counts what it is asked."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.refuses = ""

    def list(self, prefix: str) -> list[tuple[str, int, float]]:
        self.asked.append("list")
        if self.refuses:
            raise sys.modules["s3"].Unreachable(self.refuses)
        found = sorted((key, text) for key, text in self.objects.items() if key.startswith(prefix))
        return [(key, len(text), time.time()) for key, text in found]

    def get(self, key: str) -> bytes | None:
        self.asked.append("get")
        return self.objects.get(key)

    def put(self, key: str, content: bytes) -> None:
        if self.refuses:
            raise sys.modules["s3"].Unreachable(self.refuses)
        self.objects[key] = content

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)


URL = "s3://demo/neuron/cache"


@pytest.fixture
def bucket(scripts: Any) -> Iterator[Bucket]:
    """Stands where the script would sign requests; with one whole graph, and its ledger."""
    s3: Any = sys.modules["s3"]
    made, real = Bucket(), s3.Bucket
    s3.Bucket = lambda name: made
    for file in ("model.hlo_module.pb", "model.neff", "model.done"):
        made.objects[f"neuron/cache/{VERSION}/MODULE_1+a/{file}"] = b"x" * 10
    scripts.cache.write_ledger(
        scripts.cache.at(URL), "abc", {"graphs": [f"{VERSION}/MODULE_1+a"], "state": "complete", "run": "first"}
    )
    yield made
    s3.Bucket = real


def test_a_cache_in_s3_is_judged_from_one_listing(scripts: Any, bucket: Bucket) -> None:
    bucket.objects["neuron/cachelike/other"] = b""
    assert scripts.cache.verdict(URL, "abc") == (True, "1 graphs of fingerprint abc, compiled by first")
    assert bucket.asked.count("list") == 1
    assert scripts.cache.verdict(URL + "/", "abc")[0]
    assert scripts.cache.verdict(URL, "xyz")[0] is False
    for file, word in (("model.done", "is damaged"), ("model.neff", "is not compiled")):
        del bucket.objects[f"neuron/cache/{VERSION}/MODULE_1+a/{file}"]
        assert word in scripts.cache.verdict(URL, "abc")[1]


def test_a_bucket_that_cannot_be_asked_proves_nothing(scripts: Any, bucket: Bucket) -> None:
    bucket.refuses = "S3 answered 403"
    assert scripts.cache.verdict(URL, "abc") == (False, "the cache cannot be looked at: S3 answered 403")
    bucket.refuses = ""
    bucket.objects.clear()
    assert scripts.cache.verdict(URL, "abc") == (False, "no graphs of fingerprint abc are known")


def test_locks_in_s3_are_freed_as_those_of_folders_are(scripts: Any, bucket: Bucket) -> None:
    lock = f"neuron/cache/{VERSION}/MODULE_1+a/model.hlo_module.pb.lock"
    bucket.objects[lock] = b""
    assert "is locked" in scripts.cache.verdict(URL, "abc")[1]
    (locked,) = [module for module in scripts.cache.walk(scripts.cache.at(URL)) if module.locks]
    living = {"job": "7", "run": "r", "user": "u", "started": time.time() - 60, "fingerprint": ""}
    assert scripts.cache.free([locked], [living]) == ([], [(locked, living)])
    assert scripts.cache.free([locked], []) == ([locked], [])
    assert lock not in bucket.objects


def test_its_last_use_is_noted(scripts: Any, bucket: Bucket) -> None:
    before = dict(bucket.objects)
    scripts.cache.used_now(scripts.cache.at(URL), "abc")
    assert bucket.objects == before
    bucket.refuses = "read only"
    with pytest.raises(OSError, match="read only"):
        scripts.cache.used_now(scripts.cache.at(URL), "abc")


def test_caches_in_s3_are_found_by_the_runs_that_name_them(scripts: Any, bucket: Bucket, runs: Path) -> None:
    for name, url in (("a", URL), ("b", f"{URL}/"), ("c", "/fsx/cache")):
        (runs / name).mkdir()
        manifest = {"cache": url, "sdk": "2.31.1", "fingerprint_of": {"chip": "trn1"}}
        (runs / name / "run.json").write_text(json.dumps(manifest))
    (runs / "broken").mkdir()
    bucket.objects[f"neuron/cache/{VERSION}/MODULE_2+a/model.neff"] = b"stray"
    seen = scripts.look({}, [runs], "")
    (entry,) = seen["entries"]
    assert (entry["fingerprint"], entry["cache"], entry["chip"], entry["sdk"]) == ("abc", URL, "trn1", "2.31.1")
    assert (entry["state"], entry["graphs"], entry["bytes"], seen["strays"]) == ("complete", 1, 10, 1)
    assert bucket.asked.count("list") == 1


def test_pruning_in_s3_leaves_what_is_not_the_fingerprints(scripts: Any, bucket: Bucket, runs: Path) -> None:
    (runs / "a").mkdir()
    (runs / "a" / "run.json").write_text(json.dumps({"cache": URL}))
    bucket.objects["neuron/cache/notes.txt"] = b"mine"
    done = scripts.prune({"fingerprints": ["abc"], "strays": True}, [runs], "")
    assert (done["removed"], done["bytes"]) == (["abc"], 10)
    assert list(bucket.objects) == ["neuron/cache/notes.txt"]


def test_ten_thousand_graphs_in_s3_take_one_listing_and_no_object_is_read(scripts: Any, bucket: Bucket) -> None:
    for number in range(10_000):
        bucket.objects[f"neuron/cache/{VERSION}/MODULE_{number}+b/model.neff"] = b"x"
        bucket.objects[f"neuron/cache/{VERSION}/MODULE_{number}+b/model.done"] = b""
    bucket.asked.clear()
    assert sum(module.state == "done" for module in scripts.cache.walk(scripts.cache.at(URL))) == 10_001
    assert bucket.asked == ["list"]

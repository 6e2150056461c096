"""export.py as it is sent to a head node: against an endpoint that takes objects, whole and in parts."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from trnctl.render import templates
from trnctl.render.agent import exporter


@dataclass
class Store:
    """What stands behind the endpoint. `refuses` are keys that are answered with AccessDenied."""

    objects: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    puts: list[str] = field(default_factory=list)
    refuses: str = "nothing"
    endpoint: str = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """As S3 does."""
        url = urlsplit(path)
        key, query = unquote(url.path).split("/", 2)[2:], parse_qs(url.query, keep_blank_values=True)
        if not key:
            return 200, {}, self._list(query["prefix"][0])
        name = key[0]
        if self.refuses in name:
            return 403, {}, b"<Error><Code>AccessDenied</Code><Message>not you</Message></Error>"
        if "uploads" in query:
            self.parts[name] = {}
            return 200, {}, b"<Made><UploadId>u1</UploadId></Made>"
        if "partNumber" in query:
            self.parts[name][int(query["partNumber"][0])] = body
            return 200, {"ETag": f'"{query["partNumber"][0]}"'}, b""
        if "uploadId" in query:
            self.objects[name] = b"".join(text for _, text in sorted(self.parts.pop(name).items()))
            return 200, {}, b"<Done/>"
        self.puts.append(name)
        self.objects[name] = body
        return 200, {"ETag": '"e"'}, b""

    def _list(self, prefix: str) -> bytes:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 5))
        rows = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(body)}</Size><LastModified>{moment}</LastModified></Contents>"
            for key, body in sorted(self.objects.items())
            if key.startswith(prefix)
        )
        return f"<List>{rows}</List>".encode()


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()

    class Door(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, text = made.answer(self.command, self.path, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text)), "Date": formatdate()}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_DELETE = _any  # noqa: N815 - the base class's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made.endpoint = f"http://127.0.0.1:{server.server_port}"
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run with results, a log, a checkpoint, and a script with a secret."""
    run = tmp_path / "runs" / "a3f"
    for name, text in (
        ("run.json", "{}"), ("results.json", "{}"), ("train.sbatch", "TOKEN=secret"), ("logs/train/node-0.log", "x"),
        ("checkpoints/ckpt_1.pt", "c" * 1000), ("checkpoints/deep/é.bin", "d"),
    ):  # fmt: skip
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(text)
    (tmp_path / "runs" / "no-run").mkdir()
    (tmp_path / "runs" / "no-run" / "results.json").write_text("not ours")
    return tmp_path / "runs"


def export(store: Store, runs: Path, script: str = "") -> tuple[int, list[dict[str, Any]]]:
    request = {"runs_folder": str(runs), "to": "s3://mine/kept", "region": "us-west-2"}
    environment = {
        "PATH": os.environ["PATH"], "AWS_ENDPOINT_URL": store.endpoint, "AWS_ACCESS_KEY_ID": "AKID",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script or exporter()], input=json.dumps(request), env=environment, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, [json.loads(line.removeprefix("trnctl ")) for line in done.stdout.splitlines()]


def test_old_pythons_can_read_the_script() -> None:
    script = ast.parse(templates.read("node/export.py"), feature_version=(3, 6))  # SyntaxError for what 3.6 lacks
    assert script.body


def test_results_logs_and_checkpoints_are_copied_and_scripts_are_not(store: Store, runs: Path) -> None:
    code, told = export(store, runs)
    assert code == 0
    assert sorted(store.objects) == [
        f"kept/a3f/{name}"
        for name in (
            "checkpoints/ckpt_1.pt", "checkpoints/deep/é.bin", "logs/train/node-0.log", "results.json", "run.json",
        )
    ]  # fmt: skip
    assert told[0] == {"files": 5, "bytes": 1006}
    assert told[-1]["ok"] == {"files": 5, "bytes": 1006, "copied": 5, "to": "s3://mine/kept", "left_out": []}
    assert [one["done"] for one in told[1:-1]] == [1, 2, 3, 4, 5]


def test_what_is_there_is_not_copied_again_unless_it_changed(store: Store, runs: Path) -> None:
    export(store, runs)
    (runs / "a3f" / "results.json").write_text('{"more": 1}')
    store.puts.clear()
    code, told = export(store, runs)
    assert (code, told[-1]["ok"]["copied"], store.puts) == (0, 1, ["kept/a3f/results.json"])


def test_links_within_a_run_are_followed_and_others_are_named(store: Store, runs: Path) -> None:
    """Frameworks point at the newest checkpoint with a link, and may share files between two."""
    place = runs / "a3f" / "checkpoints"
    (runs.parent / "elsewhere").mkdir()
    (place / "side").mkdir()
    (runs.parent / "elsewhere" / "secret").write_text("s")
    for name, target in (
        ("latest.pt", "ckpt_1.pt"), ("newest", "deep"), ("deep/ring", ".."),
        ("side/to-deep", "../deep"), ("deep/to-side", "../side"), ("gone", "nothing"), ("itself", "itself"),
        ("out.pt", runs.parent / "elsewhere" / "secret"), ("out", runs.parent / "elsewhere"),
    ):  # fmt: skip
        (place / name).symlink_to(target)
    (runs / "a3f" / "output").mkdir()
    (runs / "a3f" / "output" / "eval.json").write_text("{}")
    code, told = export(store, runs)
    assert code == 0
    assert store.objects["kept/a3f/checkpoints/latest.pt"] == b"c" * 1000
    assert store.objects["kept/a3f/checkpoints/newest/é.bin"] == b"d"
    assert "kept/a3f/output/eval.json" in store.objects
    assert "kept/a3f/checkpoints/side/to-deep/é.bin" in store.objects
    assert len(store.objects) < 15, "no ring is walked twice"
    assert sorted(told[-1]["ok"]["left_out"]) == [
        f"a3f/checkpoints/{name} (a link that leads out of the run, or nowhere)"
        for name in ("gone", "itself", "out", "out.pt")
    ]


def test_a_large_file_goes_in_parts(store: Store, runs: Path) -> None:
    script = exporter().replace("PART = 64 * 1024 * 1024", "PART = 300")
    assert script != exporter()
    code, told = export(store, runs, script)
    assert code == 0
    assert store.objects["kept/a3f/checkpoints/ckpt_1.pt"] == b"c" * 1000
    assert "kept/a3f/checkpoints/ckpt_1.pt" not in store.puts
    assert len([one for one in told if one.get("name") == "a3f/checkpoints/ckpt_1.pt"]) > 2, "its parts are progress"


def test_a_refusal_ends_it_with_awss_words(store: Store, runs: Path) -> None:
    store.refuses = "ckpt_1"
    code, told = export(store, runs)
    assert code == 3
    assert told[-1]["error"]["kind"] == "export"
    assert "AccessDenied" in told[-1]["error"]["said"]


def test_a_run_that_cannot_be_read_ends_it_before_anything_is_copied(store: Store, runs: Path) -> None:
    """Whoever asks deletes the file system next. Root, who may run tests, may read all: the answer is stood in for."""
    other = runs / "of-another-user"
    other.mkdir()
    closed = "import os\nos.access = lambda path, mode: not path.endswith('of-another-user')\n"
    code, told = export(store, runs, closed + exporter())
    assert (code, store.objects) == (3, {})
    assert told[-1]["error"]["kind"] == "unreadable"
    assert str(other) in told[-1]["error"]["message"]
    assert "no-run" not in told[-1]["error"]["message"]

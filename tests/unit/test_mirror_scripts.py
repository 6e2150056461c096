"""s3.py and mirror.py as nodes run them: signed as botocore signs, against an endpoint that speaks like S3."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.recipes import layout, recipe, request
from trnctl.render.job import documents

NODE = Path(__file__).parents[2] / "templates" / "node"
KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("s3", NODE / "s3.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["s3"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["s3"])
    yield sys.modules["s3"]
    del sys.modules["s3"]


@dataclass
class Store:
    """What stands behind the endpoint: objects by key; `answers` go before them, one for each request."""

    objects: dict[str, bytes] = field(default_factory=dict)
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    page: int = 1000
    endpoint: str = ""

    def environment(self) -> dict[str, str]:
        return {**KEYS, "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-west-2"}

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """What S3 would say."""
        if self.answers:
            return self.answers.pop(0)
        parts = urlsplit(path)
        key, query = unquote(parts.path).split("/", 2)[2:], parse_qs(parts.query)
        if not key:
            return 200, {}, self._list(query["prefix"][0], query.get("continuation-token", [""])[0])
        if method == "PUT":
            self.objects[key[0]] = body
            return 200, {}, b""
        if key[0] not in self.objects:
            return 404, {}, b"<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>"
        if method == "DELETE":
            del self.objects[key[0]]
            return 204, {}, b""
        return 200, {}, self.objects[key[0]]

    def _list(self, prefix: str, after: str) -> bytes:
        keys = [key for key in sorted(self.objects) if key.startswith(prefix) and key > after]
        shown = keys[: self.page]
        items = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-11-29T12:00:00.000Z</LastModified>"
            f"<Size>{len(self.objects[key])}</Size></Contents>"
            for key in shown
        )
        more = f"<NextContinuationToken>{shown[-1]}</NextContinuationToken>" if len(keys) > len(shown) else ""
        space = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
        return f"<ListBucketResult {space}>{items}{more}</ListBucketResult>".encode()


@pytest.fixture
def store() -> Iterator[Store]:
    """An endpoint on loopback."""
    behind = Store()

    class Endpoint(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            behind.asked.append((self.command, self.path, dict(self.headers)))
            code, headers, answer = behind.answer(self.command, self.path, body)
            self.send_response(code)
            for name, value in {**headers, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_DELETE = _serve  # noqa: N815  the base class calls them so

        def log_message(self, *words: object) -> None:
            """Nothing: pytest shows what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    behind.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield behind
    server.shutdown()
    server.server_close()


Request = tuple[str, str, dict[str, str], bytes, str]


@pytest.mark.parametrize(
    "request_",
    [
        ("GET", "trnctl/a b/é+1.json", {}, b"", ""),
        ("PUT", "trnctl/ultra1/runs/r-1/run.json", {}, b"{}", "session"),
        ("GET", "", {"list-type": "2", "prefix": "trnctl/ultra1/runs/", "continuation-token": "a/b=+"}, b"", ""),
    ],
)
def test_a_request_is_signed_as_botocore_signs_it(s3: Any, request_: Request) -> None:
    method, key, query, content, token = request_
    from botocore.auth import SIGV4_TIMESTAMP, S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    path, words = s3.target("my.bucket", key, query)
    moment = time.gmtime()
    ours = s3.signed(
        (method, "s3.us-west-2.amazonaws.com", path, words, content), "us-west-2", ("A", "S", token), moment
    )
    url = f"https://s3.us-west-2.amazonaws.com{path}" + (f"?{words}" if words else "")
    theirs = AWSRequest(method, url, data=content or None)
    theirs.headers["X-Amz-Content-SHA256"] = ours["x-amz-content-sha256"]
    theirs.context["timestamp"] = time.strftime(SIGV4_TIMESTAMP, moment)
    signer = S3SigV4Auth(Credentials("A", "S", token or None), "s3", "us-west-2")
    theirs.headers["X-Amz-Date"] = theirs.context["timestamp"]
    if token:
        theirs.headers["X-Amz-Security-Token"] = token
    text = signer.string_to_sign(theirs, signer.canonical_request(theirs))
    assert ours["authorization"].endswith(f"Signature={signer.signature(text, theirs)}")


def ask(s3: Any, environ: dict[str, str], question: Callable[[Any], Any]) -> Any:
    bucket = s3.Bucket("demo", "us-west-2", environ)
    try:
        return question(bucket)
    finally:
        bucket.close()


def test_objects_are_written_listed_read_and_removed(s3: Any, store: Store) -> None:
    bucket = s3.Bucket("demo", environ=store.environment())
    store.page = 2
    for number in range(5):
        bucket.put(f"a/{number}", b"x" * number)
    listed = bucket.list("a/")
    assert [(key, size) for key, size, _ in listed] == [(f"a/{n}", n) for n in range(5)]
    assert time.gmtime(listed[0][2])[:4] == (2026, 11, 29, 12)
    assert bucket.get("a/3") == b"xxx"
    bucket.delete("a/3")
    bucket.delete("a/3")
    assert bucket.get("a/3") is None
    assert bucket.list("nothing/") == []
    bucket.close()


def test_a_bucket_elsewhere_is_asked_in_its_own_region(s3: Any, store: Store) -> None:
    store.objects["k"] = b"here"
    store.answers = [(301, {"x-amz-bucket-region": "eu-west-1"}, b"")]
    assert ask(s3, store.environment(), lambda bucket: bucket.get("k")) == b"here"
    assert "/eu-west-1/s3/" in store.asked[-1][2]["authorization"]


def test_what_s3_refuses_is_told_and_what_it_cannot_is_tried_again(s3: Any, store: Store) -> None:
    denied = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    store.answers = [(403, {}, denied)]
    with pytest.raises(s3.Unreachable, match="403 to PUT of s3://demo/k: AccessDenied: Access Denied"):
        ask(s3, store.environment(), lambda bucket: bucket.put("k", b"x"))
    store.answers = [(503, {}, b"slow down")]
    ask(s3, store.environment(), lambda bucket: bucket.put("k", b"x"))
    assert store.objects == {"k": b"x"}
    nobody = {**store.environment(), "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    with pytest.raises(s3.Unreachable, match="no answer"):
        ask(s3, nobody, lambda bucket: bucket.get("k"))


def test_keys_come_from_the_instances_metadata(s3: Any, store: Store) -> None:
    role = {"AccessKeyId": "ROLE", "SecretAccessKey": "s", "Token": "t"}
    store.answers = [(200, {}, b"token"), (200, {}, b"the-role\n"), (200, {}, json.dumps(role).encode())]
    environ = {"AWS_ENDPOINT_URL": store.endpoint, "AWS_EC2_METADATA_SERVICE_ENDPOINT": store.endpoint}
    ask(s3, environ, lambda bucket: bucket.put("k", b"x"))
    assert [path for _, path, _ in store.asked][:3] == [
        "/latest/api/token",
        "/latest/meta-data/iam/security-credentials/",
        "/latest/meta-data/iam/security-credentials/the-role",
    ]
    assert "Credential=ROLE/" in store.asked[-1][2]["authorization"]
    assert store.asked[-1][2]["x-amz-security-token"] == "t"
    store.answers = [(401, {}, b"")]
    with pytest.raises(s3.Unreachable, match="metadata answered 401"):
        ask(s3, environ, lambda bucket: bucket.get("k"))


def test_places_are_parted(s3: Any) -> None:
    assert s3.split("s3://b/p/q") == ("b", "p/q/")
    assert s3.split("s3://b/p/q/") == ("b", "p/q/")
    assert s3.split("s3://b") == ("b", "")


def run_folder(tmp_path: Path, mirror: str = "s3://demo/trnctl/ultra1/runs/r") -> Path:
    for file in documents(recipe(), layout(4), replace(request(), mirror=mirror, region="us-west-2")):
        (tmp_path / file.name).write_text(file.text)
    return tmp_path


def mirror(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-E", "-s", str(folder / "mirror.py")],
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip


def test_the_small_records_are_copied_and_nothing_else(tmp_path: Path, store: Store) -> None:
    folder = run_folder(tmp_path)
    for name in (
        "ended/train.json",
        "results.json",
        "submitted.json",
        "logs/train/attempts.json",
        "logs/train/node-0.log",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    done = mirror(folder, store.environment())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = ["ended/train.json", "logs/train/attempts.json", "results.json", "run.json", "submitted.json"]
    assert sorted(store.objects) == [f"trnctl/ultra1/runs/r/{name}" for name in names]
    assert store.objects["trnctl/ultra1/runs/r/run.json"] == (folder / "run.json").read_bytes()


def test_a_mirror_that_cannot_be_written_says_why(tmp_path: Path, store: Store) -> None:
    folder = run_folder(tmp_path)
    store.answers = [(403, {}, b"<Error><Code>AccessDenied</Code></Error>")]
    done = mirror(folder, store.environment())
    assert done.returncode == 1
    assert "are not mirrored to s3://demo/trnctl/ultra1/runs/r: S3 answered 403" in done.stdout
    (folder / "run.json").write_text("{")
    assert mirror(folder, store.environment()).returncode == 1


def test_without_a_bucket_there_is_no_script() -> None:
    names = {file.name for file in documents(recipe(), layout(4), request())}
    assert not names & {"mirror.py", "s3.py"}

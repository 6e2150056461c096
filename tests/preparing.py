"""A run's folder with its preparer, on this machine, with stand-ins for Slurm's commands; and a server of files."""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trnctl.ports import Need
from trnctl.render.prepare import preparer

SECONDS = 60.0
_SQUEUE = """\
#!/bin/sh
[ -e "$STATE/no-jobs" ] || printf '7\\037PENDING\\037trnctl:%s:train\\n' "$RUN"
"""
_NOTED = '#!/bin/sh\necho "$(basename "$0") $*" >>"$STATE/asked"\n'


class Run:
    """A submitted run, whose train job 7 is held until the preparer lets it go."""

    def __init__(self, root: Path, needs: Sequence[Need], name: str = "r", **submitted: object) -> None:
        self.shared, self.state, self._tools = root / "trnctl", root / f"state-{name}", root / "tools"
        self.folder = self.shared / "runs" / name
        for file in preparer():
            path = self.folder / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text)
        self.state.mkdir()
        self._tools.mkdir(exist_ok=True)
        for tool, text in {"squeue": _SQUEUE, "scontrol": _NOTED, "scancel": _NOTED}.items():
            (self._tools / tool).write_text(text)
            (self._tools / tool).chmod(0o755)
        found = [{"path": n.path, "what": n.what, "check": n.check, "fetch": n.fetch, "remedy": ""} for n in needs]
        (self.folder / "prepare" / "needs.json").write_text(json.dumps({"needs": found}))
        content = {"run": name, "jobs": {"train": "7"}, "preparing": ["x"], "released": False, **submitted}
        (self.folder / "submitted.json").write_text(json.dumps(content))

    def start(self, **variables: str) -> subprocess.Popen[bytes]:
        """Start the preparer; the caller ends it. PATH holds Slurm's stand-ins first."""
        path = f"{self._tools}:{os.environ['PATH']}"
        environment = {"HOME": str(self.state), "STATE": str(self.state), "RUN": self.folder.name, "PATH": path}
        with (self.folder / "prepare.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-E", "-s", str(self.folder / "prepare" / "prepare.py")],
                env={**environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def prepare(self, **variables: str) -> int:
        """Run the preparer to its end; its exit code. What it said is printed, for a test that fails."""
        with self.start(**variables) as process:
            try:
                return process.wait(SECONDS)
            finally:
                process.kill()
                print(self.log)

    @property
    def log(self) -> str:
        """What the preparer said."""
        return (self.folder / "prepare.log").read_text()

    @property
    def ended(self) -> Any:
        """How it ended."""
        return json.loads((self.folder / "ended" / "prepare.json").read_text())

    @property
    def asked(self) -> list[str]:
        """What it asked of Slurm, but for squeue."""
        path = self.state / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def left(self) -> list[str]:
        """What lies below the shared folder besides the run and locks, by name, for looking at halves."""
        return sorted(
            str(path.relative_to(self.shared))
            for path in self.shared.rglob("*")
            if self.folder not in path.parents and path.is_file() and not path.name.endswith(".lock")
        )


def archive(files: Mapping[str, str]) -> bytes:
    """A tar archive with these files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()


def wheel(name: str, version: str, module: str) -> tuple[str, bytes]:
    """A package of one module: the name of its file, its content."""
    info, content = f"{name}-{version}.dist-info", io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr(f"{name}.py", module)
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return f"{name}-{version}-py3-none-any.whl", content.getvalue()


class Files:
    """Serves `content` by path on loopback, with ETags and ranges as S3 does.

    `breaks` ends the next answers after so many bytes; `gate`, while it is clear, holds an answer back behind its head;
    `status` gives a path another answer; `asked` are the paths that were asked for, with their ranges.
    """

    def __init__(self, content: Mapping[str, bytes]) -> None:
        self.content, self.breaks, self.status = dict(content), list[int](), dict[str, int]()
        self.asked: list[tuple[str, str]] = []
        self.port = 0
        self.gate = threading.Event()
        self.gate.set()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[Files]:
        """Listen inside the block."""
        files = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                files.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
            self.port = server.server_port
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield self
            finally:
                self.gate.set()
                server.shutdown()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        path = request.path.partition("?")[0]
        asked = request.headers.get("Range", "")
        self.asked.append((path, asked))
        content, status = self.content.get(path), self.status.get(path)
        if status is not None or content is None:
            request.send_error(status or 404)
            return
        tag = f'"{hash(content):x}"'
        begin = int(asked.removeprefix("bytes=").rstrip("-")) if asked and request.headers.get("If-Range") == tag else 0
        request.send_response(206 if begin else 200)
        request.send_header("ETag", tag)
        request.send_header("Content-Length", str(len(content) - begin))
        request.end_headers()
        request.wfile.flush()
        self.gate.wait(SECONDS)
        much = self.breaks.pop(0) if self.breaks else len(content)
        request.wfile.write(content[begin : begin + much])

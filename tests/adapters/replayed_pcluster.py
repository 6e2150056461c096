"""A pcluster that answers with what the real one printed, and remembers which clusters it has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trnctl.ports import Completed

RECORDED = Path(__file__).parents[1] / "recorded" / "pcluster"


@dataclass(frozen=True)
class Recorded:
    """What one command printed."""

    returncode: int
    stdout: str
    stderr: str


def recorded(name: str) -> Recorded:
    """The recording of that name."""
    found = json.loads((RECORDED / f"{name}.json").read_text())
    return Recorded(found["returncode"], found["stdout"], found["stderr"])


class ReplayedPcluster:
    """A Shell on which only `pcluster` runs. Documents are told apart by a word in them: `bad`, `larger`."""

    def __init__(self) -> None:
        self.clusters: dict[str, str] = {}
        self.images: dict[str, str] = {}  # the recording that describes each
        self.going: set[str] = set()
        self.calls: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout: float) -> Completed:
        """The recording that fits the command and what there is."""
        assert argv[0] == "pcluster"
        assert stdin is None
        self.calls.append(tuple(argv))
        words = dict(zip(argv[2::2], argv[3::2], strict=True))
        answer = self._of_image if "image" in argv[1] else self._answer
        found = recorded(answer(argv[1], words))
        name = words.get("--cluster-name") or words.get("--image-id", "demo")
        return Completed(
            tuple(argv), found.returncode, found.stdout.replace("nothere", name).replace("demo", name), found.stderr
        )

    def stream(self, argv: Sequence[str], *, stdin: str | None = None) -> Iterator[str]:
        """pcluster has nothing to stream."""
        raise AssertionError("pcluster is never streamed")

    def interact(self, argv: Sequence[str]) -> int:
        """pcluster asks nothing."""
        raise AssertionError("pcluster is never interactive")

    def _answer(self, command: str, words: dict[str, str]) -> str:
        if command == "version":
            return "version"
        assert words["--region"] == "us-west-2"
        if command == "list-clusters":
            return "list" if self.clusters else "list-empty"
        name = words["--cluster-name"]
        if command == "create-cluster":
            return self._create(name, words)
        if name not in self.clusters:
            missing = {"delete-cluster": "delete-missing", "update-compute-fleet": "fleet-missing"}
            return missing.get(command, "describe-missing")
        if command == "update-cluster":
            return self._update(name, words)
        if command == "delete-cluster":
            self.going.add(name)
        return {
            "describe-cluster": "describe",
            "get-cluster-stack-events": "events-creating",
            "update-compute-fleet": "fleet-stop",
            "delete-cluster": "delete",
        }[command]

    def _of_image(self, command: str, words: dict[str, str]) -> str:
        if command == "list-images":
            names = {"AVAILABLE": "image-describe", "PENDING": "image-describe-building", "FAILED": "image-failed"}
            listed = names[words["--image-status"]] in self.images.values()
            return f"image-list-{words['--image-status'].lower()}" if listed else "image-list-empty"
        name = words["--image-id"]
        there = name in self.images
        if command == "build-image":
            return self._build(name, words)
        if command == "delete-image":
            self.going.add(name)
            return "image-delete" if there else "image-delete-missing"
        return self.images.get(name, "image-describe-missing")

    def _build(self, name: str, words: dict[str, str]) -> str:
        if "bad" in Path(words["--image-configuration"]).read_text():
            return "image-build-bad"
        again = name in self.images
        self.images.setdefault(name, "image-describe-building")
        return "image-build-again" if again else "image-build"

    def _create(self, name: str, words: dict[str, str]) -> str:
        document = Path(words["--cluster-configuration"]).read_text()
        if "bad" in document:
            return "create-bad-values"
        if name in self.clusters:
            return "create-again"
        if "--dryrun" in words:
            return "create-dryrun"
        self.clusters[name] = document
        return "create"

    def _update(self, name: str, words: dict[str, str]) -> str:
        document = Path(words["--cluster-configuration"]).read_text()
        if document == self.clusters[name]:
            return "update-running"
        if "smaller" in document:
            return "update-refused-dryrun" if "--dryrun" in words else "update-refused"
        if "--dryrun" in words:
            return "update-dryrun"
        self.clusters[name] = document
        return "update"

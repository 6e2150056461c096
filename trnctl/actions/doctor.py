"""Look at this machine: the tools that trnctl drives, the credentials, and what goes together."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from trnctl.errors import CloudError, CloudUnreachable, ToolError, ToolMissing, WaitedTooLong
from trnctl.findings import Finding, Level
from trnctl.ports import Completed, Services
from trnctl.specs import sdk
from trnctl.specs.cluster import ClusterSpec, Pcluster
from trnctl.specs.known import NOT_IN_PCLUSTER
from trnctl.specs.pcluster_faults import known_faults

_LIMIT_S = 30.0  # pcluster takes one second to tell its version, more on a cold disk
# What aws-cdk-lib, which pcluster uses, refuses (its own message), and what Node.js itself no longer maintains.
_OLDEST_NODE, _OLDEST_MAINTAINED_NODE = (10, 13), (20, 0)
_NODE_REMEDY = "Install node.js 20 or newer and put it first on PATH: pip install trnctl[node], or nodejs.org."


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found, in words, and what is wrong with it. `done` False: it could not
    be looked at, and `found` says why. `exit_code` is that of the command when a finding is an error."""

    name: str
    found: str
    findings: tuple[Finding, ...] = ()
    done: bool = True
    exit_code: int = ToolError.exit_code

    @property
    def level(self) -> Level | None:
        """The worst level of its findings."""
        levels: tuple[Level, ...] = ("error", "warning", "info")
        return next((level for level in levels if any(one.level == level for one in self.findings)), None)


def verdict(checks: Sequence[Check]) -> int:
    """The exit code: a bad file first, then tools, then AWS; 0 when there is no error."""
    return min((one.exit_code for one in checks if one.level == "error"), default=0)


def examine(services: Services, region: str | None, spec: ClusterSpec | None) -> list[Check]:
    """All checks, side by side. Without a region AWS is only asked whose credentials these are."""
    questions: list[Callable[[], Check]] = [
        python,
        lambda: pcluster(services, spec),
        lambda: node(services),
        lambda: ssh(services),
        *(_session_manager(services, spec) if spec and spec.head_node.ssm else ()),
        lambda: credentials(services),
        lambda: place(region),
        lambda: software(spec),
    ]
    with ThreadPoolExecutor(max_workers=len(questions)) as pool:
        return [answer.result() for answer in [pool.submit(question) for question in questions]]


def python() -> Check:
    """The Python that runs trnctl; an older one than trnctl takes could not have come so far."""
    return Check("python", platform.python_version())


def pcluster(services: Services, spec: ClusterSpec | None) -> Check:
    """pcluster, its version against the file's, and the known faults of that version."""
    wanted = spec.pcluster if spec else Pcluster()
    install = f"pip install aws-parallelcluster=={wanted.version}"
    done = _asked(services, [wanted.executable, "version"])
    if not isinstance(done, Completed):
        remedy = f"Install it: {install} (or trnctl[pcluster]); or set cluster.pcluster.executable."
        return _failed("pcluster", "pcluster-missing", done, remedy)
    version = _version_in(done.stdout)
    if done.returncode or not version:
        said = (done.stderr or done.stdout).strip().splitlines() or ["(nothing)"]
        broken = f"{wanted.executable} does not tell its version. It said: {said[-1][:200]}"
        return _wrong("pcluster", broken, "pcluster-broken", f"Install it anew, in a virtual environment: {install}.")
    findings = known_faults(version, spec.os if spec else "")
    if spec and version != wanted.version:
        findings.insert(0, _other_version(version, wanted.version, install))
    return Check("pcluster", version, tuple(findings))


def _other_version(found: str, wanted: str, install: str) -> Finding:
    return Finding(
        "pcluster-other-version",
        "error",
        f"pcluster is version {found}, and the cluster file asks for {wanted}",
        f"{install}, point cluster.pcluster.executable to it, or change cluster.pcluster.version. A cluster that is "
        "there belongs to the version that made it.",
        path="cluster.pcluster.version",
    )


def node(services: Services) -> Check:
    """node.js, with which pcluster builds its CloudFormation template."""
    done = _asked(services, ["node", "--version"])
    if not isinstance(done, Completed):
        return _failed("node.js", "node-missing", done, _NODE_REMEDY)
    found = re.search(r"v(\d+)\.(\d+)\.(\d+)", done.stdout)
    if done.returncode or found is None:
        return _wrong("node.js", "node does not tell its version", "node-broken", _NODE_REMEDY)
    version = (int(found[1]), int(found[2]))
    words = found[0].removeprefix("v")
    if version < _OLDEST_NODE:
        return _wrong(
            "node.js", f"node.js {words} is too old for pcluster, which needs 10.13", "node-old", _NODE_REMEDY
        )
    if version < _OLDEST_MAINTAINED_NODE:
        old = Finding("node-old", "warning", f"node.js {words} is no longer maintained", _NODE_REMEDY)
        return Check("node.js", words, (old,))
    return Check("node.js", words)


def ssh(services: Services) -> Check:
    """OpenSSH's client, through which everything on the head node happens."""
    done = _asked(services, ["ssh", "-V"])
    if not isinstance(done, Completed):
        remedy = "Install OpenSSH's client: apt install openssh-client."
        return _failed("ssh", "ssh-missing", done, remedy)
    return Check("ssh", (done.stderr or done.stdout).strip().partition(",")[0] or "found")


def _session_manager(services: Services, spec: ClusterSpec) -> Iterator[Callable[[], Check]]:
    """What `ssm` needs on this machine; a warning where ssh is open beside it."""
    level: Level = "warning" if spec.head_node.ssh_from else "error"
    for program, code, remedy in (
        ("aws", "aws-cli-missing", "Install AWS's command line, version 2: docs.aws.amazon.com/cli."),
        (
            "session-manager-plugin",
            "session-manager-plugin-missing",
            "Install it: docs.aws.amazon.com/systems-manager, “Install the Session Manager plugin”.",
        ),
    ):
        yield partial(_present, services, program, code, level, remedy)


def _present(services: Services, program: str, code: str, level: Level, remedy: str) -> Check:
    done = _asked(services, [program, "--version"])
    if not isinstance(done, Completed):
        finding = Finding(code, level, f"{program} is not here, and `head_node.ssm` goes through it", remedy)
        return Check(program, done.message, (finding,))
    return Check(program, (done.stdout or done.stderr).strip().partition("\n")[0] or "found")


def credentials(services: Services) -> Check:
    """Whose credentials are used, which needs no permission to ask."""
    try:
        who = services.account.identity()
    except CloudUnreachable as error:
        unseen = Finding("aws-unreachable", "warning", error.message, error.remedy)
        return Check("credentials", "could not be checked: AWS could not be reached", (unseen,), done=False)
    except CloudError as error:
        refused = Finding("aws-credentials", "error", error.message, error.remedy)
        return Check("credentials", "not accepted", (refused,), exit_code=CloudError.exit_code)
    return Check("credentials", f"account {who.account}, {who.arn.rpartition(':')[2]}")


def place(region: str | None) -> Check:
    """The region, and whether ParallelCluster is known to run there."""
    if region is None:
        unknown = Finding(
            "no-region", "warning", "No region is known", "Use --region, set AWS_REGION, or write a cluster file."
        )
        return Check("region", "none", (unknown,))
    if region in NOT_IN_PCLUSTER:
        unproven = Finding(
            "region-not-in-pcluster",
            "warning",
            f"ParallelCluster's packages up to 3.16.1 do not list {region}; its live list was not read",
            "Try a small cluster there before you count on it, or choose another region.",
        )
        return Check("region", region, (unproven,))
    return Check("region", region)


def software(spec: ClusterSpec | None) -> Check:
    """Operating system and Neuron SDK against each other, for the types of the file's queues."""
    if spec is None:
        return Check("software", "not checked: there is no cluster file", done=False)
    types = sorted({one.instance_type for queue in spec.queues for one in queue.compute_resources})
    xla = any(one.startswith("trn1") for one in types)
    findings = sdk.pairing(spec.os, spec.neuron_sdk, types, torch_xla=xla)
    if xla and not any(one.level == "error" for one in findings):
        findings.append(_frozen(spec.neuron_sdk))
    return Check("software", f"{spec.os}, Neuron {spec.neuron_sdk}", tuple(findings), exit_code=2)


def _frozen(version: str) -> Finding:
    """What a Trn1 user should know, and can do nothing about."""
    return Finding(
        "trn1-stack-frozen",
        "info",
        f"Trn1 trains with PyTorch/XLA, whose support by Neuron ended with 2.30: Neuron {version} stays as it is",
        "Keep the SDK pinned. Trn2 and Trn3 move to TorchNeuron, which does not run on Trn1.",
    )


def _asked(services: Services, argv: Sequence[str]) -> Completed | ToolError | WaitedTooLong:
    """What a program answers, or why it did not."""
    try:
        return services.local.run(argv, timeout=_LIMIT_S)
    except (ToolError, WaitedTooLong) as error:
        return error


def _failed(name: str, code: str, error: ToolError | WaitedTooLong, remedy: str) -> Check:
    """A program that is missing, or did not answer."""
    missing = isinstance(error, ToolMissing)
    finding = Finding(code, "error", error.message, remedy if missing else error.remedy)
    return Check(name, "missing" if missing else "no answer", (finding,))


def _wrong(name: str, message: str, code: str, remedy: str) -> Check:
    return Check(name, "unusable", (Finding(code, "error", message, remedy),))


def _version_in(text: str) -> str:
    """pcluster prints `{"version": "3.16.1"}`, sometimes after other lines."""
    start = text.find("{")
    try:
        return str(json.loads(text[start:])["version"]) if start >= 0 else ""
    except (ValueError, KeyError, TypeError):
        return ""

"""Why something failed: gather the evidence through the doors, or take a saved file, and judge it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache

from trnctl.actions.runs import OpenCluster
from trnctl.codes import Code, explained
from trnctl.diagnose.evidence import Facts, Origin
from trnctl.diagnose.judge import Diagnosis, fill, judge
from trnctl.diagnose.scan import Probes, Scanner
from trnctl.diagnose.signatures import Signature, Signatures, load_signatures
from trnctl.errors import CloudError, NotFoundError, RunFailed, ToolError, TrnctlError
from trnctl.ports import Gathered, Instance, Observed, Services, StackEvent
from trnctl.render import templates
from trnctl.specs.cluster import ClusterSpec

_RECENT = timedelta(hours=24)  # what daemons wrote before is another story, unless a run is asked about that is older
_STARTS = frozenset({"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"})
Saved = tuple[Origin, Iterable[bytes]]


@dataclass(frozen=True)
class Answer:
    """What `why` found out: about a run, a cluster or files (`about`), by name. `notes` say what could not be asked."""

    about: str
    name: str
    diagnosis: Diagnosis
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The stable JSON form, without the findings."""
        return {"about": self.about, "name": self.name, "notes": list(self.notes), **self.diagnosis.as_json()}


@cache
def known() -> Signatures:
    """All signatures that the package carries; they are as constant as its code."""
    return load_signatures({name: templates.read(name) for name in templates.names("signatures/")}, check=False)


def why_files(files: Iterable[Saved], name: str, facts: Facts | None = None) -> Answer:
    """Judge saved texts: logs, dumps, scripts, one after the other in bounded memory."""
    return Answer("file", name, _judged(files, facts or {}))


def why_cluster(opened: OpenCluster, spec: ClusterSpec | None) -> Answer:
    """Judge a cluster. NotFoundError when neither AWS nor CloudFormation's memory knows it."""
    seen, events = _ask_cloud(opened)
    if seen.stack is None and not events:
        raise NotFoundError(
            f"there is no cluster {opened.cluster} in {opened.region}",
            remedy="trnctl cluster list shows what exists; trnctl why FILE reads a saved log",
        )
    gathered, notes = _ask_head(opened, seen)
    recent = opened.services.clock.now() - _RECENT
    saved = [*_of_stack(opened.cluster, seen, events), *_of_fleet(seen), *_of_head(gathered)]
    case = _Case(tuple(saved), _facts(opened.services, spec, seen), f"{recent:%Y-%m-%dT%H:%M:%S}")
    found = case.judged()
    if notes or _undecided(found):
        found, more = _joined(opened, seen, case, recent)
        notes = (*notes, *more)
    return Answer("cluster", opened.cluster, found, notes)


def why_run(opened: OpenCluster, spec: ClusterSpec | None, run: str) -> Answer:
    """Judge a run, by its name or how that ends. NotFoundError when there is none of that name."""
    seen, events = _ask_cloud(opened)
    head = _running_head(seen)
    if head is None:
        raise NotFoundError(
            f"{opened.cluster} has no head node that runs, so it knows of no run {run}",
            remedy="trnctl why cluster looks at the cluster; trnctl why FILE reads a saved log",
        )
    gathered = opened.services.head.evidence(head).gather(opened.runs_folder, run)
    saved = [*_of_head(gathered), *_of_stack(opened.cluster, seen, events), *_of_fleet(seen)]
    case = _Case(tuple(saved), _facts(opened.services, spec, seen), gathered.since.rstrip("Z"))
    found, notes = case.judged(), tuple[str, ...]()
    if _undecided(found):
        found, notes = _joined(opened, seen, case, _moment(gathered.since))
    return Answer("run", gathered.run, found, notes)


def explain_failure(name: str, verb: str, services: Services, spec: ClusterSpec | None = None) -> ToolError | None:
    """The error for a stack that did not get there, with its cause; None when the evidence does not tell one.

    It never hides the failure that it explains: what cannot be asked is left out.
    """
    try:
        seen, events = services.cloud.observe(name), services.cloud.stack_events(name)
        sent, _ = _ask_cloud_watch(name, services, seen, _newest(name, events)[0].at if events else None)
        saved = [*_of_stack(name, replace(seen, stack=None), events), *_of_fleet(seen), *_of_head(sent)]
        findings = _judged(saved, _facts(services, spec, seen)).findings
    except TrnctlError:
        return None
    if not findings:
        return None
    first = findings[0]
    return ToolError(
        f"{name} could not be {verb}: {_lower(first.message)}",
        remedy=f"{first.remedy} Then run this command again; trnctl cluster events --cluster {name} lists everything.",
        findings=findings[:1],
    )


def explain_run(failed: RunFailed, run: str, opened: OpenCluster, spec: ClusterSpec | None = None) -> RunFailed:
    """The same error with its cause, where the run's evidence tells one."""
    try:
        findings = [one for one in why_run(opened, spec, run).diagnosis.findings if one.level == "error"]
    except TrnctlError:
        return failed
    if not findings:
        return failed
    first = findings[0]
    return RunFailed(
        f"{failed.message}: {_lower(first.message)}", remedy=f"{first.remedy} {failed.remedy}", findings=findings[:1]
    )


# ------------------------------------------------------------------------------------------------ codes


@dataclass(frozen=True)
class Explanation:
    """What a code means. `signature` is how it is recognised, None for codes that come from checks alone."""

    code: str
    level: str
    meaning: str
    remedy: str
    signature: Signature | None = None


def why_code(code: str) -> Explanation | None:
    """What a finding's code means; None when there is no such code."""
    row, signature = explained(code), known().by_code().get(code)
    if signature is None:
        return None if row is None else _of_row(row)
    meaning = f"{fill(signature.message, {})} {fill(signature.cause, {})}".replace("?", "…")
    meaning = f"{row.meaning} {fill(signature.cause, {})}" if row else meaning
    remedy = fill(signature.remedy, {}).replace("?", "…")
    return Explanation(code, signature.level, meaning.strip(), remedy or "Nothing needs to be done.", signature)


def near_codes(code: str) -> list[str]:
    """Codes that look like it."""
    from trnctl.codes import CODES

    return get_close_matches(code, [*CODES, *known().by_code()], n=3, cutoff=0.75)


def _of_row(row: Code) -> Explanation:
    return Explanation(row.code, row.level, row.meaning, row.remedy)


# ------------------------------------------------------------------------------------------------ evidence


def _judged(saved: Iterable[Saved], facts: Facts, since: str = "") -> Diagnosis:
    signatures = known()
    scanner = Scanner(Probes(signatures))
    for origin, chunks in saved:
        scanner.read(chunks, origin)
    return judge(scanner.scan, signatures, facts, since)


@dataclass(frozen=True)
class _Case:
    """What is known so far: the texts, the facts besides, and since when what daemons wrote counts."""

    saved: tuple[Saved, ...]
    facts: Facts
    since: str

    def judged(self) -> Diagnosis:
        """What that tells."""
        return _judged(self.saved, self.facts, self.since)


def _undecided(found: Diagnosis) -> bool:
    """Whether the worst that was found is a symptom: what a node that is gone has sent may tell the cause."""
    signature = known().by_code().get(found.findings[0].code) if found.findings else None
    return bool(found.findings) and (signature is None or signature.kind in {"symptom", "fallback"})


def _joined(
    opened: OpenCluster, seen: Observed, case: _Case, begin: datetime | None
) -> tuple[Diagnosis, tuple[str, ...]]:
    """The same evidence and what has reached CloudWatch, and EC2's consoles, since it all began; what that was."""
    sent, notes = _ask_cloud_watch(opened.cluster, opened.services, seen, begin)
    return replace(case, saved=(*case.saved, *_of_head(sent))).judged(), notes


def _moment(text: str) -> datetime | None:
    """`2026-10-01T09:12:01Z`; None for a text that is no time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _ask_cloud(opened: OpenCluster) -> tuple[Observed, list[StackEvent]]:
    cloud, name = opened.services.cloud, opened.cluster
    with ThreadPoolExecutor(2) as pool:
        seen, events = pool.submit(cloud.observe, name), pool.submit(cloud.stack_events, name)
        return seen.result(), events.result()


def _running_head(seen: Observed) -> Instance | None:
    return seen.head if seen.head and seen.head.state == "running" else None


def _ask_head(opened: OpenCluster, seen: Observed) -> tuple[Gathered, tuple[str, ...]]:
    """What the head node has written down; a note when it cannot be asked."""
    head, nothing = _running_head(seen), Gathered("", ())
    if head is None:
        return nothing, ("there is no head node that runs, so its logs were not read",)
    try:
        return opened.services.head.evidence(head).gather(), ()
    except ToolError as error:
        return nothing, (f"the head node could not be asked: {error.message}",)


def _ask_cloud_watch(
    cluster: str, services: Services, seen: Observed, since: datetime | None
) -> tuple[Gathered, tuple[str, ...]]:
    """What has reached CloudWatch, and EC2's console of the head node, with a note of what that was."""
    try:
        sent = tuple(services.cloud.sent_logs(cluster, [seen.head.id] if seen.head else [], since))
    except CloudError as error:
        return Gathered("", ()), (f"CloudWatch could not be asked: {error.message}",)
    if not sent:
        return Gathered("", ()), ("nothing of it has reached CloudWatch",)
    names = [one.name.rpartition(".")[2] if one.name.startswith("CloudWatch ") else one.name for one in sent]
    listed = [f"{name} (×{names.count(name)})" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    return Gathered("", sent), (f"what has reached CloudWatch was read: {', '.join(listed)}",)


def _of_stack(cluster: str, seen: Observed, events: Iterable[StackEvent]) -> Iterator[Saved]:
    """The events of the newest operation on a stack; none when it ended well, since old failures are over."""
    if seen.stack is not None and seen.stack.phase == "running":
        return
    lines = (
        f"{event.at:%Y-%m-%dT%H:%M:%S} {event.status} {event.resource_type} {event.logical_id}: {event.reason}\n"
        for event in _newest(cluster, events)
    )
    yield Origin("stack-event", "stack events"), [line.encode() for line in lines]


def _newest(cluster: str, events: Iterable[StackEvent]) -> list[StackEvent]:
    """The events of the newest creation or update, with those of a deletion behind it."""
    newest: list[StackEvent] = []
    for event in events:
        if event.logical_id == cluster and event.status in _STARTS and event.status != "DELETE_IN_PROGRESS":
            newest = []
        newest.append(event)
    return newest


def _of_fleet(seen: Observed) -> Iterator[Saved]:
    if seen.fleet is not None:
        yield Origin("fleet", "compute fleet"), [f"fleet status: {seen.fleet.status.upper()}\n".encode()]


def _of_head(gathered: Gathered) -> Iterator[Saved]:
    for one in gathered.texts:
        yield Origin(one.source, one.name, one.node), [one.text.encode()]


def _facts(services: Services, spec: ClusterSpec | None, seen: Observed) -> dict[str, str]:
    """What is known besides the texts, from the cluster file and from AWS."""
    facts: dict[str, str] = {}
    if seen.stack is not None and seen.stack.version:
        facts["version"] = seen.stack.version
    if spec is None:
        return facts
    facts.setdefault("version", spec.pcluster.version)
    facts["os"], facts["os_family"] = spec.os, spec.os.rstrip("0123456789")
    counts = [resource.max_count for queue in spec.queues for resource in queue.compute_resources]
    if counts:
        facts["max_count"] = str(max(counts))
    route = _head_route(services, spec)
    return {**facts, "head_route": route} if route else facts


def _head_route(services: Services, spec: ClusterSpec) -> str:
    """Where the head node's way out leads: `igw` (an internet gateway, and the node has no public address), `nat`,
    `none`, `open` (a gateway, and it has one), or '' when AWS does not say."""
    try:
        subnets = {subnet.id: subnet for subnet in services.account.subnets()}
    except CloudError:
        return ""
    subnet = subnets.get(spec.network.head_subnet)
    if subnet is None:
        return ""
    if subnet.way_out == "internet":
        return "open" if subnet.public_ips or spec.head_node.elastic_ip else "igw"
    return subnet.way_out


def _lower(sentence: str) -> str:
    """A sentence as it reads behind a colon; names in capitals stay."""
    first = sentence.split(" ", 1)[0]
    lowered = sentence[:1].lower() + sentence[1:] if first[1:].islower() or len(first) == 1 else sentence
    return lowered.rstrip(".")

"""What `trnctl plan` shows: the numbers of nodes side by side, memory as bars, and what it all rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen, finding_line
from trnctl.cli.words import plural
from trnctl.errors import UsageError
from trnctl.findings import by_severity

if TYPE_CHECKING:
    from trnctl.actions.plan import PlanAnswer
    from trnctl.plan.memory import Memory
    from trnctl.plan.outlook import Outlook
    from trnctl.plan.suggest import Suggestion

_COLUMNS = 6  # numbers of nodes side by side, within 100 columns
_BAR = 56  # characters of the longest bar
_GLYPHS = {"parameters": "█", "gradients": "▓", "optimizer": "▒", "gathered": "▚", "activations": "░", "logits": "▪"}
_MOST_SUGGESTIONS = 12
_WITHIN = 1.05  # of the cheapest's cost


def plan(screen: Screen, answer: PlanAnswer) -> None:
    """The whole answer. Findings go to stderr unless an error tells them anyway."""
    if screen.json:
        screen.data(answer.as_json())
        return
    illegal = all(one.status == "illegal" for one in answer.outlooks)
    if illegal and not answer.suggestions:
        return  # the error says all that there is to say
    _title(screen, answer)
    shown = [] if illegal else list(answer.outlooks)
    for start in range(0, len(shown), _COLUMNS):
        _table(screen, shown[start : start + _COLUMNS], _STRONG)
    weak = [one for one in answer.weak if one.status == "ok" and one.proposal.nodes != answer.workload.nodes]
    if weak and answer.suggestions is None:
        screen.text(
            "\nweak scaling, a bound: the accumulation stays, so the global batch grows with the nodes, and with"
        )
        screen.text("a larger batch a model may need more tokens than these, which are the same as above")
        for start in range(0, len(weak), _COLUMNS):
            _table(screen, weak[start : start + _COLUMNS], _WEAK)
    if answer.suggestions is not None:
        _suggestions(screen, answer.suggestions)
    else:
        _bars(screen, shown)
    _grounds(screen, [*shown, *weak] if answer.suggestions is None else shown)
    if answer.suggestions is None and len(shown) > 1:
        _advice(screen, shown)
    for finding in by_severity(answer.findings):
        if finding.level != "error" and not illegal:
            screen.err.print(finding_line(finding))


def _title(screen: Screen, answer: PlanAnswer) -> None:
    workload, model = answer.workload, answer.workload.shape
    size = f"{model.parameters / 1e9:,.3g}B parameters, " if model is not None else ""
    batch = workload.batch
    screen.text(f"{workload.name} — {size}sequences of {batch.sequence:,} tokens")
    screen.text(f"on {answer.instance_type} ({answer.place}), with {answer.outlooks[0].proposal.backend}")
    known = next((one for one in answer.outlooks if one.tokens), None)
    if known is not None:
        work = f"{_amount(known.tokens)} tokens, {plural(known.steps, 'step')}"
        screen.text(f"to train on {work}; modelled, but for rates that are said to be published")
    if workload.plan_only:
        screen.text("to be planned only, not submitted (trnctl workloads show says why)")
    elif answer.instance_type not in workload.ranks_per_node:
        runs_on = ", ".join(workload.ranks_per_node)
        screen.text(f"to be planned only: the recipe's script runs on {runs_on}, and cannot be submitted elsewhere")
    screen.text("")


def _table(screen: Screen, shown: Sequence[Outlook], rows: Mapping[str, Callable[[Outlook], str]]) -> None:
    screen.table(
        ["", *(plural(one.proposal.nodes, "node") for one in shown)],
        [(name, *(cell(one) for one in shown)) for name, cell in rows.items()],
    )


def _layout(one: Outlook) -> str:
    from trnctl.plan.outlook import layout_words

    return layout_words(one.proposal) if one.status != "illegal" else "–"


def _batch(one: Outlook) -> str:
    made = one.layout
    return "–" if one.status == "illegal" else f"{made.micro_batch}×{made.accumulation}×{made.data}"


def _global(one: Outlook) -> str:
    return "–" if one.status == "illegal" else f"{one.layout.global_batch:,}"


def _memory(one: Outlook) -> str:
    from trnctl.plan.memory import GIB

    return "–" if one.memory is None else f"{one.memory.total / GIB:.1f} GiB"


def _sent(one: Outlook) -> str:
    sent = one.communication
    if sent is None:
        return "–"
    if not sent.total:
        return "none"
    return f"{sent.total / 1e9:,.0f} GB" if sent.total >= 1e11 else f"{sent.total / 1e9:.3g} GB"


def _unhidden(one: Outlook) -> str:
    sent = one.communication
    return _seconds(sent.seconds) if sent is not None and sent.total else "–"


def _step(one: Outlook) -> str:
    if one.pace is None or one.pace.step_seconds is None:
        return "–"
    return f"{_seconds(one.pace.step_seconds)}{_spread(one)}"


def _rate(one: Outlook) -> str:
    if one.pace is None or one.pace.rate is None:
        return "–"
    rate = one.pace.rate
    return f"{rate:,.0f} seq/s" if rate >= 100 else f"{rate:,.3g} seq/s"


def _tokens(one: Outlook) -> str:
    if one.pace is None or one.pace.rate is None:
        return "–"
    return f"{_amount(one.pace.rate * one.proposal.workload.batch.sequence)}/s"


def _training(one: Outlook) -> str:
    if one.hours is None:
        return "–"
    return f"{one.hours:,.1f} h" if one.hours < 48 else f"{one.hours / 24:,.1f} days"


def _cost(one: Outlook) -> str:
    if one.cost_usd is None:
        return "–"
    if one.cost_usd >= 1e6:
        return f"${one.cost_usd / 1e6:,.2f}M"
    return f"${one.cost_usd:,.0f}" if one.cost_usd < 10_000 else f"${one.cost_usd / 1000:,.1f}k"


def _ground(one: Outlook) -> str:
    return one.pace.ground if one.pace is not None else "–"


def _verdict(one: Outlook) -> str:
    if one.status == "illegal":
        return "✗ illegal"
    if one.status == "does-not-fit":
        return "✗ does not fit"
    if one.memory is None:
        return "✓ legal"
    return "! tight" if any(finding.code == "memory-tight" for finding in one.findings) else "✓ fits"


_STRONG: Mapping[str, Callable[[Outlook], str]] = {
    "layout": _layout,
    "batch": _batch,
    "global": _global,
    "memory": _memory,
    "traffic": _sent,
    "at full rate": _unhidden,
    "step": _step,
    "rate": _rate,
    "tokens": _tokens,
    "ground": _ground,
    "training": _training,
    "cost": _cost,
    "": _verdict,
}
_WEAK: Mapping[str, Callable[[Outlook], str]] = {
    name: _STRONG[name] for name in ("batch", "global", "rate", "ground", "training", "cost")
}


def _spread(one: Outlook) -> str:
    return f" ±{one.pace.spread:.0%}" if one.pace is not None and one.pace.spread else ""


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _amount(number: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:,.4g}{letter}"
    return f"{number:,.0f}"


def _bars(screen: Screen, shown: Sequence[Outlook]) -> None:
    """One bar a number of nodes; the bar of what may be filled ends at │."""
    from trnctl.plan.memory import GIB

    known = [(one, one.memory) for one in shown if one.memory is not None]
    if not known:
        return
    scale = _BAR / max(max(memory.device, memory.total) for _, memory in known)
    names = [name for name in _GLYPHS if any(memory.rows[name] > 0 for _, memory in known)]
    first = known[0][1]
    limits = f"{first.usable / GIB:.1f} of {first.device / GIB:.0f}"
    screen.text(f"\nmemory of one worker, in GiB; │ is what may be filled ({limits})")
    for one, memory in known:
        band = f" ({memory.low / GIB:.1f} to {memory.high / GIB:.1f})" if memory.high > memory.low else ""
        bar = _bar(memory, scale)
        screen.text(f"{plural(one.proposal.nodes, 'node'):>10}  {bar} {memory.total / GIB:.1f}{band}")
        if memory.host:
            screen.text(f"{'':>10}  and {memory.host / GIB:,.0f} of {memory.host_capacity / GIB:,.0f} GiB on each host")
    screen.text(f"{'':>10}  {'  '.join(f'{_GLYPHS[name]} {name}' for name in names)}")


def _bar(memory: Memory, scale: float) -> str:
    """Every part at least where it begins and ends to the nearest character, so that the whole has its true length."""
    cells, end = "", 0.0
    for name, size in memory.rows.items():
        end += size
        cells += _GLYPHS[name] * max(0, round(end * scale) - len(cells))
    limit = round(memory.usable * scale)
    if limit >= len(cells):
        return cells + " " * (limit - len(cells)) + "│"
    return cells[:limit] + "│" + cells[limit + 1 :]


def _grounds(screen: Screen, shown: Sequence[Outlook]) -> None:
    """What time, traffic and cost rest on, each ground once with the numbers of nodes that it holds for."""
    from trnctl.plan.pace import MFU_DEFINITION

    grounds: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in shown:
        if one.pace is None:
            continue
        weak = one.proposal.scaling == "weak"
        told = [("time", one.pace.basis)]
        told += [] if weak else [("traffic", _traffic(one)), ("cost", one.cost_basis)]
        told += [("check", note) for note in one.notes]
        for ground in told:
            grounds.setdefault(ground, {}).setdefault("weak " if weak else "", []).append(str(one.proposal.nodes))
    if not grounds:
        return
    screen.text("")
    for kind in ("time", "traffic", "cost", "check"):
        for (name, words), places in grounds.items():
            if name == kind and words:
                nodes = "; ".join(f"{scaling}{', '.join(counts)}" for scaling, counts in places.items())
                screen.field(kind, f"[{nodes}] {words}", data=True)
    screen.field("", f"{MFU_DEFINITION}.", data=True)


def _traffic(one: Outlook) -> str:
    sent = one.communication
    if sent is None:
        return ""
    inside = ", ".join(f"{name} parallelism" for name in sent.inside)
    most = f"most is {sent.dominant}" if sent.dominant else "nothing leaves a node"
    within = f"; inside a node {inside} dominates" if inside else ""
    return f"{most}{within}. {sent.hybrid}"


def _advice(screen: Screen, shown: Sequence[Outlook]) -> None:
    """Which number of nodes is cheapest, and which is fastest for about that money."""
    priced = [(one.cost_usd, one.hours or 0.0, one.proposal.nodes) for one in shown if one.status == "ok"]
    costs = [(cost, hours, nodes) for cost, hours, nodes in priced if cost is not None]
    if len(costs) < 2:
        return
    cheapest = min(costs, key=lambda c: (float(f"{c[0]:.3g}"), c[2]))
    fastest = min((c for c in costs if c[0] <= _WITHIN * cheapest[0]), key=lambda c: c[1])
    said = f"cheapest: {plural(cheapest[2], 'node')}"
    if fastest[2] != cheapest[2]:
        said += f"; fastest within 5 % of its cost: {plural(fastest[2], 'node')}"
    screen.text("")
    screen.text(said)


def _suggestions(screen: Screen, found: Sequence[Suggestion]) -> None:
    if not found:
        screen.text("\nno legal layout fits")
        return
    from trnctl.plan.outlook import layout_words

    screen.text(f"\n{plural(len(found), 'legal layout')} that fit, cheapest first")
    screen.table(
        ["NODES", "LAYOUT", "CHECKPOINT", "GIB", "STEP", "COST", "WHY"],
        [
            (
                one.outlook.proposal.nodes, layout_words(one.outlook.proposal), one.outlook.proposal.checkpoint,
                _memory(one.outlook).removesuffix(" GiB"), _step(one.outlook).partition(" ±")[0],
                _cost(one.outlook), one.reason,
            )
            for one in found[:_MOST_SUGGESTIONS]
        ],
        right=(0, 3),
    )  # fmt: skip
    if len(found) > _MOST_SUGGESTIONS:
        screen.text(f"and {len(found) - _MOST_SUGGESTIONS} more: -o json shows all")
    screen.text("Costs compare bubbles and recomputation, not what the compiler makes of a degree.")


def write_chart(screen: Screen, answer: PlanAnswer, path: str) -> None:
    """Memory by nodes as an SVG file. UsageError when there is nothing to draw, or the file cannot be written."""
    from trnctl.plan.memory import GIB
    from trnctl.render.memory_chart import Bar, memory_chart

    bars = [
        Bar(
            plural(one.proposal.nodes, "node"),
            {name: size / GIB for name, size in one.memory.rows.items()},
            one.memory.device / GIB,
            one.memory.usable / GIB,
        )
        for one in answer.outlooks
        if one.memory is not None
    ]
    if not bars:
        raise UsageError(
            "there is no memory to draw: no number of nodes is legal, or the recipe gives no shape of the model",
            remedy="ask for --nodes that are legal",
        )
    try:
        Path(path).write_text(memory_chart(f"{answer.workload.name} on {answer.instance_type}", bars), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", remedy="choose another file") from error
    screen.say(f"wrote {path}")

"""How long a run takes and what it costs, from published rates only; every figure says what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trnctl.plan.layout import Layout
from trnctl.specs.prices import ON_DEMAND, TABLE, Prices
from trnctl.specs.workload import Published, Value, WorkloadSpec


@dataclass(frozen=True)
class Estimate:
    """A prediction. `rate` is in `unit`; `hours` is training alone, `compile_hours` the compile stage before it;
    `cost_usd` is both, on all nodes, at the on-demand price. None for what is not known; `basis` says why, or on what
    the figures rest."""

    steps: int
    rate: float | None
    unit: str
    hours: float | None
    compile_hours: float
    cost_usd: float | None
    price_per_node_hour: float | None
    basis: str
    price_source: str = ""  # whose price it is, and of when


def estimate(
    workload: WorkloadSpec,
    layout: Layout,
    instance_type: str,
    *,
    arguments: Mapping[str, Value] | None = None,
    compiles: bool = True,
    prices: Prices = TABLE,
    capacity: str = ON_DEMAND,
) -> Estimate:
    """What to expect of one run. `arguments` are the user's (they may set the steps); `compiles` is False when the
    compile stage is left out; `capacity` is how the nodes are bought. Never fails for a missing rate or price: the
    figure is None, and the basis says so."""
    from trnctl.plan.arguments import planned_steps  # rates alone are wanted without it, where a start is short

    steps = planned_steps(workload, arguments or {})
    rate, basis = predicted_rate(workload, layout, instance_type)
    hours = steps * layout.global_batch / rate / 3600 if rate else None
    compile_hours = (workload.compile_minutes or 0.0) / 60 if compiles and workload.compile != "none" else 0.0
    price = prices.of(instance_type, capacity)
    cost = layout.nodes * (hours + compile_hours) * price if hours is not None and price is not None else None
    priced = f"no price is known for {instance_type}" if price is None else prices.source(instance_type, capacity)
    return Estimate(
        steps=steps,
        rate=rate,
        unit=workload.log.unit,
        hours=hours,
        compile_hours=compile_hours,
        cost_usd=cost,
        price_per_node_hour=price,
        basis=f"{basis}; {priced}",
        price_source=priced,
    )


def predicted_rate(workload: WorkloadSpec, layout: Layout, instance_type: str) -> tuple[float | None, str]:
    """The rate to expect, and the ground for it.

    A row of the same scaling and node count is taken as it is. Between two rows the logarithm of the rate is
    interpolated over the logarithm of the nodes; up to twice the largest row the last slope is continued. On one node
    strong and weak scaling are the same thing.
    """
    rows = sorted(
        (row for row in workload.published if row.scaling == layout.scaling or row.nodes == 1),
        key=lambda row: row.nodes,
    )
    kind = f"published {layout.scaling}-scaling rate"
    exact = next((row for row in rows if row.nodes == layout.nodes), None)
    if exact is not None:
        digits = 0 if exact.rate >= 100 else 2
        return exact.rate, f"{kind} {exact.rate:,.{digits}f} {workload.log.unit}, {_sources([exact], instance_type)}"
    below = [row for row in rows if row.nodes < layout.nodes]
    above = [row for row in rows if row.nodes > layout.nodes]
    if below and above:
        pair, word = (below[-1], above[0]), "interpolated"
    elif len(below) >= 2 and layout.nodes <= 2 * below[-1].nodes:
        pair, word = (below[-2], below[-1]), "extrapolated"
    else:
        return None, f"the rate is unknown: no {kind} near {layout.nodes} nodes"
    return _on_the_line(pair, layout.nodes), (
        f"{word} from the {kind}s at {pair[0].nodes} and {pair[1].nodes} nodes: {_sources(pair, instance_type)}"
    )


def _on_the_line(pair: Sequence[Published], nodes: int) -> float:
    """The power law through two points."""
    low, high = pair
    slope = math.log(high.rate / low.rate) / math.log(high.nodes / low.nodes)
    return low.rate * math.pow(nodes / low.nodes, slope)


def _sources(rows: Sequence[Published], instance_type: str) -> str:
    """Where the rows come from, and on what they were measured where that is another type."""
    told = [f"{row.source} ({row.note})" if row.note else row.source for row in rows]
    others = dict.fromkeys(row.instance_type for row in rows if row.instance_type != instance_type)
    return "; ".join(told) + (f"; measured on {', '.join(others)}" if others else "")

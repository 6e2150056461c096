"""What `trnctl cost` shows, and the prices that a person gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen, finding_line
from trnctl.cli.words import clock, money
from trnctl.errors import UsageError
from trnctl.specs.prices import Prices

if TYPE_CHECKING:
    from trnctl.actions.cost import CostReport, CostRow
    from trnctl.actions.runs import OpenCluster
    from trnctl.ports import Services


def prices_of(opened: OpenCluster, given: Sequence[str], *, online: bool) -> Prices:
    """The prices to reckon with: the person's own, AWS's price list of now when asked for, the table's."""
    types: set[str] = set()
    if online:
        types = {one.type for one in opened.services.cloud.observe(opened.cluster).instances}
        if opened.spec is not None:
            types |= types_of(opened)
    return asked_prices(opened.services, given, types)


def types_of(opened: OpenCluster) -> set[str]:
    """Every instance type of the cluster file."""
    if opened.spec is None:
        return set()
    nodes = {one.instance_type for queue in opened.spec.queues for one in queue.compute_resources}
    return {opened.spec.head_node.instance_type, *nodes}


def asked_prices(services: Services, given: Sequence[str], types: Iterable[str] = ()) -> Prices:
    """The person's own prices, and AWS's price list for these types (none: it is not asked)."""
    wanted = sorted(types)
    asked = services.account.prices(wanted) if wanted else {}
    return Prices(own_prices(given), asked, f"{services.clock.now():%Y-%m-%d}")


def own_prices(given: Sequence[str]) -> dict[str, float]:
    """`--price TYPE=USD`. UsageError for what is no such thing."""
    found = {}
    for text in given:
        name, _, usd = text.partition("=")
        try:
            found[name] = float(usd)
        except ValueError:
            found[name] = -1.0
        if not name or not 0 <= found[name] < 1e6:
            raise UsageError(f"--price {text} is not TYPE=USD", remedy="write it as --price trn1.32xlarge=12.90")
    return found


def report(screen: Screen, found: CostReport) -> None:
    """The rows, the sum, from when it is known, and what is not in it."""
    if screen.json:
        screen.data(found.as_json())
        return
    screen.notice(found.notice)
    for alert in found.alerts:
        screen.err.print(finding_line(alert))
    if found.rows:
        _table(screen, found)
    total = f"{money(found.so_far_usd)} so far" + (f" (since {clock(found.known_from)})" if found.known_from else "")
    now = f"{found.per_hour} now" if found.per_hour else "nothing of it is on"
    screen.field("cost", f"{total}, {now}", data=True)
    for one in found.not_priced:
        screen.field("not in it", one, data=True)
    screen.field("basis", found.basis, style="dim", data=True)


def _table(screen: Screen, found: CostReport) -> None:
    hours = {"kind": "HOURS", "run": "NODE-HOURS", "day": "HOURS"}[found.by]
    if found.by == "run":
        columns = ["RUN", "WORKLOAD", "NODES", hours, "COST", "CAP", "STATE"]
        screen.table(columns, [_run(row) for row in found.rows], right=(2, 3, 4, 5))
        return
    columns = [{"kind": "WHAT", "day": "DAY (UTC)"}[found.by], "TYPE" if found.by == "kind" else "", hours, "COST"]
    rows = [(row.name, row.what, _hours(row.hours), _usd(row.usd)) for row in found.rows]
    screen.table(columns, rows, right=(2, 3))


def _run(row: CostRow) -> tuple[str, ...]:
    cap = money(row.cap_usd) if row.cap_usd is not None else "–"
    nodes = str(row.nodes) if row.nodes is not None else ""
    return row.name, row.what, nodes, _hours(row.hours), _usd(row.usd), cap if row.nodes is not None else "", row.state


def _hours(hours: float | None) -> str:
    return "–" if hours is None else f"{hours:,.2f}"


def _usd(usd: float | None) -> str:
    return "no price" if usd is None else money(usd)

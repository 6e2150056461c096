"""A network layout as the CloudFormation template that makes it."""

from __future__ import annotations

from trnctl import __version__
from trnctl.plan.network import NetworkLayout
from trnctl.render.engine import render


def network_template(name: str, zone: str, layout: NetworkLayout) -> str:
    """The whole template. `name` names everything that takes a name; both subnets stand in `zone`."""
    context = {"version": __version__, "name": name, "zone": zone, "layout": layout}
    return render("yaml", "network/network.yaml.j2", context)

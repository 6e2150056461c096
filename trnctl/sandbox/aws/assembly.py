"""The parts of the emulator and how they know each other; importing this imports moto."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from trnctl.sandbox.aws import (
    capacity,
    gaps,
    hooks,
    image_builder,
    last_words,
    lustre,
    models,
    networks,
    permissions,
    quotas,
)
from trnctl.sandbox.aws.account import EmulatedAccount
from trnctl.sandbox.aws.backends import Backends, empty_account
from trnctl.sandbox.aws.boots import Boots
from trnctl.sandbox.aws.faults import Faults
from trnctl.sandbox.aws.fleet import Fleet
from trnctl.sandbox.aws.front import Front
from trnctl.sandbox.aws.seeding import seed
from trnctl.sandbox.aws.seeds import Seeds
from trnctl.sandbox.aws.stacks import Stacks
from trnctl.sandbox.aws.updates import Updates
from trnctl.sandbox.ports import Machines


@dataclass(frozen=True)
class Parts:
    """What the server needs of the emulator; `server` is werkzeug's."""

    account: EmulatedAccount
    fleet: Fleet
    front: Front
    server: Any


def assemble(
    *, machines: Machines, region: str, port: int, resource_seconds: float, fleet_seconds: float, seeds: Seeds
) -> Parts:
    """An account with its seeds, listening on the port of 127.0.0.1."""
    lock = threading.RLock()
    faults = Faults()
    empty_account()
    capacity.empty()
    image_builder.empty()
    models.install()
    gaps.install()
    last_words.install()
    networks.install()
    capacity.install()
    quotas.install()
    permissions.install()
    gone = hooks.aside(machines.delete_file_system)
    lustre.install(gone)
    hooks.install_file_systems(gone)

    backends = Backends(region)
    account = EmulatedAccount(backends, faults, lock)
    boots = Boots(machines, faults, lock, ready=lambda cluster: fleet.put(cluster, "RUNNING"))
    fleet = Fleet(backends, account, machines, lock, seconds=fleet_seconds, clusters=boots.living)
    account.write_fleet = fleet.put
    stacks = Stacks(boots, faults, lock, resource_seconds)
    hooks.install_stacks(stacks, Updates(stacks))
    seed(backends, seeds)

    moto = DomainDispatcherApplication(create_backend_app)
    front = Front(moto, faults, lock, region)
    server = make_server("127.0.0.1", port, front, threaded=True, request_handler=MotoRequestHandler)
    return Parts(account, fleet, front, server)

"""How the ranks of a job find each other and stay in step: a small store on the first node's address and port.

All emulated nodes are this one machine, so every node's own address becomes an address of its own in 127.0.0.0/8:
two jobs on different nodes may use the same port, as on AWS, and two on the same node clash, as on AWS.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import socket
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

_LOOPBACK = "127.0.0.1"
_LINE_LIMIT = 200


class RendezvousError(Exception):
    """The ranks did not come together; the text is what torch would say."""


class Endpoint(NamedTuple):
    """Where the store is: the `host` and `port` that the user named, and the loopback `address` behind them."""

    host: str
    port: int
    address: str


def endpoint(host: str, port: int, nodes: int, cluster: Path) -> Endpoint:
    """The loopback address behind a master address. One of this machine, as emulated nodes are registered with at
    Slurm, is the same for all nodes: the job's node list tells jobs apart then, or the node, when a job has one."""
    who = host
    if _is_this_machine(host):
        who = os.environ.get("SLURMD_NODENAME" if nodes == 1 else "SLURM_JOB_NODELIST", "")
        if not who:  # not under Slurm: the address means what it says
            return Endpoint(host, port, _LOOPBACK)
    digest = hashlib.sha256(f"{cluster}|{who}".encode()).digest()
    return Endpoint(host, port, f"127.{digest[0]}.{digest[1]}.{1 + digest[2] % 254}")


def _is_this_machine(host: str) -> bool:
    if host in ("localhost", socket.gethostname()):
        return True
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Numeric only, for no resolver needs to know the names of emulated nodes.
            address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0][4]
            probe.bind(address)
    except OSError:
        return False
    return True


class Store:
    """The server: counts who has reached a named point, and answers all when everyone has."""

    def __init__(self, where: Endpoint, nodes: int) -> None:
        self._nodes = nodes
        self._arrived: dict[str, set[int]] = defaultdict(set)
        self._changed = threading.Condition()
        self._server = _listen(where)
        threading.Thread(target=self._accept, daemon=True).start()

    def arrived(self, point: str) -> int:
        """How many nodes have reached a point."""
        with self._changed:
            return len(self._arrived[point])

    def _full(self, point: str) -> bool:
        return len(self._arrived[point]) >= self._nodes

    def _accept(self) -> None:
        while True:
            connection, _ = self._server.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer one member: each line is `<node rank> <point>`; the answer comes when all are there."""
        with connection, contextlib.suppress(ConnectionError):  # one that is gone is missed by those who wait
            talk = connection.makefile("rb")
            while line := talk.readline(_LINE_LIMIT).decode():
                rank, point = line.split()
                with self._changed:
                    self._arrived[point].add(int(rank))
                    self._changed.notify_all()
                    self._changed.wait_for(functools.partial(self._full, point))
                connection.sendall(b"all\n")


class Member:
    """One process's line to the store."""

    def __init__(self, connection: socket.socket, rank: int) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb")
        self._rank = rank

    def reach(self, point: str, seconds: float) -> bool:
        """Say that this node is at a point, and wait for the others; False when the time is over.

        A peer or a store that is gone looks like one that is late, as in collectives over EFA."""
        deadline = time.monotonic() + seconds
        try:
            self._connection.settimeout(seconds)
            self._connection.sendall(f"{self._rank} {point}\n".encode())
            if self._answers.readline(_LINE_LIMIT):
                return True
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        time.sleep(max(0.0, deadline - time.monotonic()))
        return False


def join(where: Endpoint, rank: int, seconds: float) -> Member:
    """Connect to the store, trying until the time is over. Raises RendezvousError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return Member(socket.create_connection((where.address, where.port), timeout=seconds), rank)
        except OSError as problem:
            if time.monotonic() >= deadline:
                text = f"The client socket has timed out after {seconds:g}s while trying to connect to"
                raise RendezvousError(f"{text} ({where.host}, {where.port}).") from problem
            time.sleep(0.1)


def gather(where: Endpoint, rank: int, nodes: int, seconds: float) -> Member:
    """Come together with all nodes; rank 0 serves the store from then on, until its process ends.

    Raises RendezvousError.
    """
    store = Store(where, nodes) if rank == 0 else None
    member = join(where, rank, seconds)
    if not member.reach("joined", seconds):
        joined = store.arrived("joined") if store else None
        if joined is not None:
            text = f"Timed out after {seconds:g} seconds waiting for clients. {joined}/{nodes} clients joined."
        else:
            text = f"The client socket has timed out after {seconds:g}s while waiting for the other nodes."
        raise RendezvousError(text)
    return member


def _listen(where: Endpoint) -> socket.socket:
    try:
        return socket.create_server((where.address, where.port), backlog=1024)
    except OSError as problem:
        # torch's words; it binds all interfaces, which an emulated node must not.
        raise RendezvousError(
            "The server socket has failed to listen on any local network address. The server socket has failed to "
            f"bind to [::]:{where.port} (errno: {problem.errno} - {os.strerror(problem.errno or 0)})."
        ) from problem

"""Where the sandbox listens: one local address, and ports that no other sandbox takes."""

from __future__ import annotations

import contextlib
import random
import socket
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
# Below the range from which Linux takes the ports of outgoing connections (32768 and up), so that none is in our way.
_FIRST, _LAST, _SIZE = 12_000, 31_900, 64


@dataclass(frozen=True)
class Address:
    """The address of all Slurm daemons. `bound` says that they can be made to listen on it alone.

    With NoInAddrAny Slurm listens on the address that the machine's own host name stands for, and there is no other
    way to choose. So that address is ours: mostly a loopback one, in a container often its private one. A host name
    that stands for nothing leaves Slurm on all addresses; its messages are authenticated by munge in every case.
    """

    hostname: str
    ip: str
    bound: bool


def own_address(hostname: str | None = None) -> Address:
    """The address that this machine's host name stands for, if it is one of this machine's."""
    name = hostname or socket.gethostname()
    with contextlib.suppress(OSError):  # the name is unknown, or the address is not here
        ip = socket.gethostbyname(name)
        with socket.socket() as probe:
            probe.bind((ip, 0))
        return Address(name.partition(".")[0], ip, bound=True)
    return Address(name.partition(".")[0], LOOPBACK, bound=False)


class Ports:
    """Ports in blocks of 64; the first of each is held by a socket that does not listen, so that two sandboxes cannot
    take the same block, although the ports of nodes that are powered down are not in use."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []
        self._free: list[int] = []

    def take(self, count: int) -> list[int]:
        """That many ports, in order. OSError when the machine has no block left."""
        while len(self._free) < count:
            self._free += self._block()
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def release(self) -> None:
        """Give all blocks back."""
        for held in self._held:
            held.close()
        self._held, self._free = [], []

    def _block(self) -> list[int]:
        starts = list(range(_FIRST, _LAST, _SIZE))
        # The block after the last one first: ports in one piece keep slurm.conf short.
        follows = [self._held[-1].getsockname()[1] + _SIZE] if self._held else []
        for start in follows + random.sample(starts, len(starts)):
            if start >= _LAST or any(held.getsockname()[1] == start for held in self._held):
                continue
            sockets = [_bound(port) for port in range(start, start + _SIZE)]
            for each in sockets[1:]:
                if each:
                    each.close()
            if sockets[0] and all(sockets):
                self._held.append(sockets[0])
                return list(range(start + 1, start + _SIZE))
            if sockets[0]:
                sockets[0].close()
        raise OSError("no block of 64 free ports is left on this machine")


def _bound(port: int) -> socket.socket | None:
    """A socket bound to a port on every address, None when it is in use somewhere."""
    candidate = socket.socket()
    try:
        candidate.bind(("", port))  # bound, never listening: nothing can be reached through it
    except OSError:
        candidate.close()
        return None
    return candidate

"""What stands behind the doors in tests: small worlds in memory that speak the domain's words.

They keep the promises of `trnctl.ports`; the suites in `tests/contracts` hold them and the real adapters to the same.
"""

from tests.fakes.account import InMemoryCloud, InMemoryProvisioner, head_node
from tests.fakes.clock import START, HandWoundClock
from tests.fakes.holdings import InMemoryAccount
from tests.fakes.queue import InMemoryQueue
from tests.fakes.shell import Call, ScriptedShell
from tests.fakes.world import InMemoryHead, World

__all__ = [
    "START",
    "Call",
    "HandWoundClock",
    "InMemoryAccount",
    "InMemoryCloud",
    "InMemoryHead",
    "InMemoryProvisioner",
    "InMemoryQueue",
    "ScriptedShell",
    "World",
    "head_node",
]

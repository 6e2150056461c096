"""Every failure that trnctl names: a message, the way out, and one exit code per kind.

The message says what happened and why; `remedy` says what to do, and has no default, so that no error
can be raised without one. Adapters translate foreign failures into these once; nothing above an adapter
sees a foreign exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from trnctl.findings import Finding


class TrnctlError(Exception):
    """The base of all named failures; `exit_code` is part of the command-line contract."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, remedy: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.findings = tuple(findings)


class UsageError(TrnctlError):
    """Bad usage, a bad file, or a layout that is not legal."""

    exit_code = 2


class RefusedError(TrnctlError):
    """It does not fit, or a check before the action refused: queue limit, memory, quota, cost cap, live runs."""

    exit_code = 3


class NameTaken(RefusedError):
    """A cluster of that name is there already."""


class ToolError(TrnctlError):
    """A tool failed or is missing: pcluster, ssh, sbatch."""

    exit_code = 4


class ToolMissing(ToolError):
    """A program is not installed or not on PATH; `program` is its name."""

    def __init__(self, message: str, *, remedy: str, program: str) -> None:
        super().__init__(message, remedy=remedy)
        self.program = program


class ConnectionLost(ToolError):
    """The connection to the head node broke or never came up.

    `reached` False: it never came up, so nothing ran there. True: the command may or may not have run.
    """

    def __init__(self, message: str, *, remedy: str, reached: bool = True) -> None:
        super().__init__(message, remedy=remedy)
        self.reached = reached


class CloudError(TrnctlError):
    """AWS refused, or could not be reached."""

    exit_code = 5


class CloudUnreachable(CloudError):
    """No answer came from AWS: nothing is known about what was asked."""


class ThrottledError(CloudError):
    """AWS asks to be asked less often; what is waited for goes on."""


class RunFailed(TrnctlError):
    """A job of a run failed or was cancelled."""

    exit_code = 6


class LeftoverError(TrnctlError):
    """Something that costs money is left after a teardown."""

    exit_code = 7


class NotFoundError(TrnctlError):
    """No such cluster, run or node."""

    exit_code = 8


class WaitedTooLong(TrnctlError):
    """A wait with a limit ran out; the work itself goes on."""

    exit_code = 124


class Interrupted(TrnctlError):
    """Ctrl-C: the work goes on, and the remedy says how to look at it again."""

    exit_code = 130

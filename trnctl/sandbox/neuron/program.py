"""How an emulated tool starts: quiet when its reader goes away, like any program that is not Python."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn


def start(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a tool on this process's arguments and end with its exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))

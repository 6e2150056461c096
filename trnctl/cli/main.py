"""Runs the command line: errors become two lines and an exit code here, and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from trnctl.errors import TrnctlError


def main() -> None:
    """Run the command line of this process and exit with its code."""
    _open_streams()
    _name_a_home()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _unread()
    raise SystemExit(code)


def _open_streams() -> None:
    """Let no stream be a reason to fail: one that was closed (`>&-`) is /dev/null, and a character that the terminal's
    encoding lacks is written as `?` (JSON is plain ASCII there)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115  # for the whole process
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _name_a_home() -> None:
    """A user whom the system does not know, in a container (`docker run -u 1234`), has the one that docker gives."""
    from pathlib import Path

    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = "/"


def run(argv: Sequence[str]) -> int:
    """Run one command line to its exit code; nothing is raised."""
    from typer.main import get_command

    from trnctl.cli.app import app
    from trnctl.cli.argv import arrange
    from trnctl.cli.quick import quick
    from trnctl.cli.session import Session

    line = arrange(argv)
    try:
        quick(get_command(app))(list(line.argv), prog_name="trnctl", obj=Session(rest=line.rest))
    except TrnctlError as error:
        show_error(error, sys.stderr)
        return error.exit_code
    except SystemExit as end:
        return _code_of(end)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return 130
    except BrokenPipeError:
        return _unread()
    except Exception as error:  # noqa: BLE001  # the last resort: anything unforeseen is logged whole, told in two lines
        _show_unexpected(error, sys.stderr)
        return 1
    return 0


def _code_of(end: SystemExit) -> int:
    """The code that a command ended with."""
    if isinstance(end.__context__, BrokenPipeError):  # typer ends with 1, the code of what is unexpected
        return _unread()
    return end.code if isinstance(end.code, int) else 0 if end.code is None else 1


def _unread() -> int:
    """The reader of a pipe went away (`trnctl logs … | head`): not a failure worth a word. 141, as of SIGPIPE."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def show_error(error: TrnctlError, out: TextIO) -> None:
    """`error: what happened` and `remedy: what to do`; findings that the message does not tell stand between them."""
    out.write(f"error: {error.message}\n")
    for finding in error.findings:
        if finding.cause:  # a diagnosis: the message has said what happened
            evidence = f"{finding.source}: {finding.evidence}" if finding.source else finding.evidence
            out.write(f"  cause     {finding.cause}    [{finding.code}, {finding.confidence} confidence]\n")
            out.write(f"  evidence  {evidence}\n")
        elif str(finding) not in error.message:
            out.write(f"  {finding.level}: {finding} [{finding.code}]\n")
    out.write(f"remedy: {error.remedy}\n")


def _show_unexpected(error: Exception, out: TextIO) -> None:
    import traceback
    from datetime import UTC, datetime
    from pathlib import Path

    text = "".join(traceback.format_exception(error))
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(state) / "trnctl" / "log" / f"error-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # a traceback may quote what a person typed
        path.write_text(text, encoding="utf-8")
    except (OSError, RuntimeError):  # nowhere to write, or no home: then the traceback itself is better than nothing
        out.write(text)
        return
    out.write(f"error: something unexpected happened: {type(error).__name__}: {error}\n")
    out.write(f"remedy: please report it with the traceback in {path}\n")

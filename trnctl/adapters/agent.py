"""The script that answers on the head node: sent along with each call, it speaks lines of JSON and leaves nothing.

It is `templates/node/queue.py` with the modules that it imports (see `render.agent`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from trnctl.errors import ConnectionLost, NotFoundError, RefusedError, ToolError, TrnctlError, UsageError
from trnctl.ports import CommandFailed, Completed, Shell

# Reads the script's length, then the script, from stdin; what is left there is the request. So neither of them meets
# the limit on the length of an argument (128 KiB), and the process list on the head node stays readable.
_BOOT = "import sys; b = sys.stdin.buffer; n = int(b.readline()); exec(compile(b.read(n), 'queue.py', 'exec'))"
# The system's own python3 comes first: one that a user has put on PATH may be anything, and slow to start.
_START = 'exec "$(command -v /usr/bin/python3 || command -v python3 || echo python3)" -I -c "$0" "$1"'
_MARK = "trnctl "


class Agent:
    """The script behind a Shell; each call is one connection."""

    def __init__(self, shell: Shell, script: str) -> None:
        self._shell = shell
        self._script = script

    def ask(self, verb: str, request: Mapping[str, Any], *, timeout: float) -> dict[str, Any]:
        """The answer to one verb. Raises what the script refused with, ToolError when there is no answer."""
        return parse_reply(verb, self._shell.run(_command(verb), stdin=self._stdin(request), timeout=timeout))

    def listen(self, verb: str, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The messages of a verb that goes on, as they come. Raises as `ask`."""
        try:
            for line in self._shell.stream(_command(verb), stdin=self._stdin(request)):
                message = parse_message(line)
                if message is not None and "error" in message:
                    raise refusal(message["error"])
                if message is not None:
                    yield message
        except CommandFailed as error:
            raise _no_answer(verb, error.completed) from error

    def _stdin(self, request: Mapping[str, Any]) -> str:
        return f"{len(self._script.encode())}\n{self._script}{json.dumps(request)}"


def _command(verb: str) -> list[str]:
    return ["/bin/sh", "-c", _START, _BOOT, verb]


def parse_message(line: str) -> dict[str, Any] | None:
    """One line of the script's protocol; None for what a login script or a banner printed."""
    if not line.startswith(_MARK):
        return None
    try:
        found = json.loads(line[len(_MARK) :])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def parse_reply(verb: str, done: Completed) -> dict[str, Any]:
    """The answer among the lines of stdout. Raises what the script refused with, ToolError when there is no answer."""
    messages = [message for line in done.stdout.splitlines() if (message := parse_message(line))]
    for message in reversed(messages):
        if "error" in message:
            raise refusal(message["error"])
        if "ok" in message:
            return cast("dict[str, Any]", message["ok"])
    raise _no_answer(verb, done)


def _no_answer(verb: str, done: Completed) -> ToolError:
    words = [line for line in done.stderr.splitlines() if line.strip()] or ["(nothing)"]
    if done.returncode == 255:
        # The script never ends with that, but ssh does: without a word when the process that holds the shared
        # connection has gone (killed, or the machine slept), or when its log level hides what it would say.
        return ConnectionLost(
            f"The connection to the head node broke before it answered {verb}. It said: {words[-1].strip()}",
            remedy="Run the command again. What had begun there may go on: trnctl status shows it.",
        )
    if done.returncode == 127 or "python3: not found" in done.stderr:
        return ToolError(
            f"The head node has no python3. It said: {words[-1].strip()}",
            remedy="Install python3 on the head node: trnctl ssh -- sudo apt-get install -y python3.",
        )
    return ToolError(
        f"The head node gave no answer to {verb} (exit code {done.returncode}). It said: {words[-1].strip()}",
        remedy="Look at the head node: trnctl ssh -- 'python3 --version; sinfo'. Then run the command again.",
    )


def plain_words(said: str) -> str:
    """What one of Slurm's commands said, without its name before every line and without banners of stars."""
    lines = (re.sub(r"^(?:\w+: )?(?:(?:error|fatal): )?", "", line.strip()) for line in said.splitlines())
    kept = [line.rstrip(".") for line in lines if line and not re.fullmatch(r"\*+.*\*+", line)]
    return "; ".join(dict.fromkeys(kept))


def slurm_down(said: str) -> ToolError:
    """Slurm's controller does not answer; the rest of the head node does."""
    return ToolError(
        f"Slurm's controller does not answer on the head node. It said: {plain_words(said)}",
        remedy="Start it again: trnctl ssh -- sudo systemctl restart slurmctld. Running jobs go on without it.",
    )


_REFUSALS: dict[str, tuple[type[TrnctlError], str]] = {
    "no-run": (NotFoundError, "List the runs: trnctl runs."),
    "not-running": (RefusedError, "trnctl status says what it waits for; trnctl why RUN why it ended."),
    "no-folder": (ToolError, "Look at the file system there, it may be full or gone: trnctl ssh -- df -h."),
    "no-slurm": (ToolError, "The head node may still be configured: wait, then run trnctl status."),
    "bad-request": (UsageError, "Use plain names: letters, digits, dots, dashes; no folder above."),
    "name-taken": (UsageError, "Choose another --name, or leave it out; trnctl runs shows the one that has it."),
    "lives": (RefusedError, "Wait for it, or cancel it first: trnctl cancel RUN."),
    "complete": (RefusedError, "Submit a new run that starts from its checkpoint: trnctl submit … --from RUN."),
    "cap-reached": (
        RefusedError,
        "Submit a new run that starts from its checkpoint, with a cap of its own: trnctl submit … --from RUN.",
    ),
    "export": (
        ToolError,
        "Nothing has been deleted. The head node's role must be allowed to write there (iam.policies); it may write to "
        "the cluster's own bucket. Run the command again: it goes on where it broke off.",
    ),
    "unreadable": (
        ToolError,
        "Nothing has been copied or deleted. Let their owners copy them, or open them to this user: trnctl ssh -- sudo "
        "chmod -R a+rX FOLDER; then run the command again.",
    ),
    "never": (RefusedError, "Submit it: trnctl submit."),
    "no-checkpoint": (RefusedError, "Look at what it has: trnctl results RUN; or start from the beginning."),
    "no-nodes": (RefusedError, "trnctl health -N 1 starts a node and looks at it; trnctl status shows them all."),
    "busy": (ToolError, "Wait for the other one, then run the command again: it will not submit twice."),
}


def refusal(error: Mapping[str, str]) -> TrnctlError:
    """The script's refusal as one of our errors."""
    kind, message, said = error.get("kind", ""), error.get("message", ""), plain_words(error.get("said", ""))
    full = f"{message} It said: {said}" if said else message
    if kind == "slurm-down":
        return slurm_down(said or message)
    if kind == "missing":
        return RefusedError(message, remedy=f"{said}; or submit without looking, with --skip-prepare.")
    if kind == "no-start":
        return RefusedError(message, remedy=said)
    if kind == "refused":
        return ToolError(full, remedy=sbatch_remedy(said))
    unknown = (ToolError, "This is a fault in trnctl: please report it with the command that you ran.")
    found, remedy = _REFUSALS.get(kind, unknown)
    return found(full, remedy=remedy)


# sbatch's own words (22.05 to 25.11), and what to do about them.
_SBATCH: tuple[tuple[str, str], ...] = (
    (r"invalid partition", "Name a queue that exists: trnctl status shows them; -p/--queue chooses one."),
    (r"node configuration is not available", "Ask for fewer nodes, or raise max_count in trnctl.yaml and update."),
    (r"more nodes than|Node count specification|PartitionNodeLimit", "Ask for fewer nodes, or raise max_count."),
    (r"time limit", "Ask for less time with --time, or raise the queue's MaxTime."),
    (r"partition.*(down|inactive|state)", "Start the fleet: trnctl cluster fleet start."),
    (r"Memory specification", "Leave --mem out: this cluster does not schedule memory."),
    (r"invalid account|account/partition", "Leave --account out, or name one that exists: sacctmgr show assoc."),
    (r"unrecognized option|Invalid (option|directive)", "Check what stands after -- on the command line."),
    (r"QOS|MaxSubmitJobsLimit|MaxJobs", "Wait for other jobs to end, or ask whoever set the limit."),
)


def sbatch_remedy(said: str) -> str:
    """What to do about sbatch's words; where they are not known, the next place to look."""
    for pattern, remedy in _SBATCH:
        if re.search(pattern, said, re.IGNORECASE):
            return remedy
    return "Nothing was left in the queue. Change what it names and submit again."

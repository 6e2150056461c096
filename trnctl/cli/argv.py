"""The command line before it is parsed: global options are accepted before and after the command.

Typer knows options by level: an option of the whole program stands before the command. People type
`trnctl status -o json`. So the global ones are moved to the front, and nothing after `--` is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GLOBAL_VALUES = frozenset({"-c", "--config", "-o", "--output", "--cluster", "--profile", "--region"})
GLOBAL_FLAGS = frozenset({"--sandbox", "-v", "--verbose", "--no-color", "--version"})
# Options of commands that take a value, which must not be mistaken for an option of ours when it looks like one.
# tests/cli/test_argv.py compares this with the commands as they are.
COMMAND_VALUES = frozenset(
    {
        "-N", "--nodes", "-p", "--queue", "--scaling", "--set", "--env", "--name", "--exclude", "--compile", "--from",
        "--time", "--max-cost", "--write", "--stage", "--node", "--resource-seconds", "--boot-seconds", "--steps",
        "--interval", "--times", "--newest", "--suppress", "--price", "--mfu", "--tokens", "--instance-type",
        "--pcluster-version", "-n", "--tail", "--since", "--notify",
        "--results", "--older-than", "--svg", "--backend", "--max-nodes", "--cidr", "--zone",
        "--compute-subnet", "--head-subnet", "--key-name", "--ssh-key", "--ssh-from", "--reservation", "--bucket",
        "--output-file", "--by", "--format", "--epoch", "--ranks", "--python", "--patience", "--set-count", "--export",
        "--parent", "--subnet", "--security-group",
    }
)  # fmt: skip
# Commands that hand what follows `--` to something else: to the remote shell, to sbatch.
PASS_ON = frozenset({"ssh", "submit"})
_SHORT_FLAGS = frozenset("fvwyh")


@dataclass(frozen=True)
class CommandLine:
    """`argv` for Typer, global options first; `rest` is what followed `--` of a command that passes it on."""

    argv: tuple[str, ...]
    rest: tuple[str, ...] | None = None


def arrange(argv: Sequence[str]) -> CommandLine:
    """Move the global options to the front and split off what is passed on."""
    before, found, after = _split(argv)
    front: list[str] = []
    kept: list[str] = []
    tokens = iter(before)
    for token in tokens:
        name = token.partition("=")[0]
        if token in GLOBAL_FLAGS or (name != token and name in GLOBAL_VALUES) or _is_attached(token):
            front.append(token)
        elif token in GLOBAL_VALUES:
            front.extend([token, *_value(tokens)])
        elif token in COMMAND_VALUES:
            kept.extend([token, *_value(tokens)])
        elif _has_verbose(token):
            front.append("-v")
            if others := token.replace("v", "").removeprefix("-"):
                kept.append(f"-{others}")
        else:
            kept.append(token)
    command = next((token for token in kept if not token.startswith("-")), "")
    if not found:
        return CommandLine((*front, *kept))
    if command in PASS_ON:
        return CommandLine((*front, *kept), rest=tuple(after))
    return CommandLine((*front, *kept, "--", *after))


def _split(argv: Sequence[str]) -> tuple[list[str], bool, list[str]]:
    tokens = list(argv)
    if "--" not in tokens:
        return tokens, False, []
    at = tokens.index("--")
    return tokens[:at], True, tokens[at + 1 :]


def _value(tokens: Iterator[str]) -> list[str]:
    """The next token, taken off the caller's iterator on purpose."""
    value = next(tokens, None)
    return [] if value is None else [value]


def _is_attached(token: str) -> bool:
    """`-ojson`, `-cfile.yaml`: a short option with its value attached."""
    return len(token) > 2 and token[:2] in {"-o", "-c"} and token[2] != "-"


def _has_verbose(token: str) -> bool:
    """`-fv`: flags bundled behind one dash, with ours among them."""
    return len(token) > 2 and token[0] == "-" and token[1] != "-" and "v" in token and set(token[1:]) <= _SHORT_FLAGS

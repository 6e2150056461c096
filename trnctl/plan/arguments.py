"""The script's own arguments and environment: the recipe's words filled with a layout's numbers and a run's folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trnctl.errors import UsageError
from trnctl.plan.layout import Layout
from trnctl.specs.workload import PLACEHOLDERS, Value, WorkloadSpec

_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_ARGUMENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What the layout and the run's folder decide; were it set by hand, results and checkpoints would tell another story.
_DECIDED = frozenset(
    {"nodes", "ranks", "world", "micro_batch", "accumulation", "global_batch", "checkpoints", "output"}
)


@dataclass(frozen=True)
class Filled:
    """What a run's jobs pass to the script: whole words (`--lr=0.0004`), and variables by name."""

    training: tuple[str, ...]
    compiling: tuple[str, ...]
    environment: Mapping[str, str]
    virtualenv: str
    steps: int


def fill_in(
    workload: WorkloadSpec,
    layout: Layout,
    *,
    folder: str,
    mount: str,
    arguments: Mapping[str, Value],
    environment: Mapping[str, str],
) -> Filled:
    """The recipe's arguments and environment for one run in `folder`; `arguments` and `environment` are the user's,
    and come last. Raises UsageError for what only the layout may decide, and for names that cannot be names."""
    wanted = {name: _as_value(value) for name, value in arguments.items()}
    _check_names(workload, wanted, environment)
    steps = planned_steps(workload, wanted)
    words = {
        **{name: str(getattr(layout, name)) for name in ("nodes", "world", "micro_batch", "accumulation")},
        "ranks": str(layout.ranks_per_node),
        "global_batch": str(layout.global_batch),
        "steps": str(steps),
        "checkpoints": f"{folder}/checkpoints",
        "output": f"{folder}/output",
        "data": f"{mount}/trnctl/data",
        "mount": mount,
    }
    training = {**{name: _fill(value, words) for name, value in workload.arguments.items()}, **wanted}
    trial = {**training, **{name: _fill(value, words) for name, value in workload.compile_arguments.items()}}
    variables = {**workload.environment, **(workload.multi_node_environment if layout.nodes > 1 else {})}
    return Filled(
        training=_command_words(training),
        compiling=_command_words(trial),
        environment={**{name: str(_fill(value, words)) for name, value in variables.items()}, **environment},
        virtualenv=str(_fill(workload.virtualenv, words)),
        steps=steps,
    )


def planned_steps(workload: WorkloadSpec, arguments: Mapping[str, Value]) -> int:
    """The optimizer steps of a run: the recipe's, or what the user sets the argument to that says when to stop (the
    one whose value is `{steps}` in the recipe). Raises UsageError when that is no positive number."""
    for name, value in workload.arguments.items():
        if value == "{steps}" and name in arguments:
            text = str(arguments[name])
            if re.fullmatch(r"[0-9]{1,12}", text) is None or int(text) < 1:
                raise UsageError(
                    f"{name} says after how many steps the run ends, and {text!r} is no such number.",
                    remedy=f"Give a whole number, as in --set {name}=100.",
                )
            return int(text)
    return workload.steps


def _check_names(workload: WorkloadSpec, arguments: Mapping[str, Value], environment: Mapping[str, str]) -> None:
    for name in arguments:
        if _ARGUMENT_NAME.fullmatch(name) is None:
            raise UsageError(
                f"{name!r} cannot be the name of an argument.",
                remedy="Write it without dashes in front, as in --set lr=0.0002.",
            )
        found = {match.group(1) for match in _PLACEHOLDER.finditer(str(workload.arguments.get(name, "")))}
        if found & _DECIDED:
            raise UsageError(
                f"{name} follows from the layout and the run's folder ({', '.join(sorted(found & _DECIDED))}), "
                "and cannot be set by hand: what trnctl reports would not be what runs.",
                remedy="Choose --nodes and --scaling, or write a recipe of your own with another batch.",
            )
    for name in environment:
        if _VARIABLE_NAME.fullmatch(name) is None:
            raise UsageError(
                f"{name!r} cannot be the name of an environment variable.",
                remedy="Use letters, digits and underscores, and no digit in front.",
            )


def _as_value(value: Value) -> Value:
    """`true` and `false`, as the command line gives them, are flags as in the recipe."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _fill(value: Value, words: Mapping[str, str]) -> Value:
    """Only known words in braces are replaced; other braces stay, as in JSON."""
    if not isinstance(value, str):
        return value
    return _PLACEHOLDER.sub(lambda match: words[match.group(1)], value)


def _command_words(arguments: Mapping[str, Value]) -> tuple[str, ...]:
    """`--name=value`, in one word, so that no value can be taken for an option."""
    return tuple(
        f"--{name}" if value is True else f"--{name}={value}" for name, value in arguments.items() if value is not False
    )

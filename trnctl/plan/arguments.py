"""The script's own arguments and environment: the recipe's words filled with a layout's numbers and a run's folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trnctl.errors import UsageError
from trnctl.plan.layout import Layout
from trnctl.specs.workload import PLACEHOLDERS, Value, WorkloadSpec
from trnctl.specs.workload_checks import ARGUMENT_NAME, OVERRIDE_NAME, VARIABLE_NAME

_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
# What the layout and the run's folder decide; were it set by hand, results and checkpoints would tell another story.
_DECIDED = frozenset(PLACEHOLDERS) - {"steps", "every_steps", "source", "data", "hub", "mount"}


@dataclass(frozen=True)
class Filled:
    """What a run's jobs pass to the script: whole words (`--lr=0.0004`), and variables by name; `trial` are those of
    the compile stage. `every_steps` is how often the script checkpoints, where that is a number of steps."""

    training: tuple[str, ...]
    compiling: tuple[str, ...]
    environment: Mapping[str, str]
    trial: Mapping[str, str]
    virtualenv: str
    steps: int
    every_steps: int | None


def fill_in(
    workload: WorkloadSpec,
    layout: Layout,
    *,
    folder: str,
    mount: str,
    arguments: Mapping[str, Value],
    environment: Mapping[str, str],
    source: str = "",
) -> Filled:
    """The recipe's arguments and environment for one run in `folder`; `arguments` and `environment` are the user's,
    and come last. `source` is the folder of the recipe's code. Raises UsageError for what only the layout may decide,
    and for names that cannot be names."""
    wanted = {name: _as_value(value) for name, value in arguments.items()}
    _check_names(workload, wanted, environment)
    steps, every = planned_steps(workload, wanted), checkpoint_steps(workload, wanted)
    words = _words(layout, steps=steps, every=every, folder=folder, mount=mount, source=source)
    variables = {**workload.environment, **(workload.multi_node_environment if layout.nodes > 1 else {})}
    plain = {name: value for name, value in wanted.items() if not _is_override(workload, name)}
    overriding = {name: value for name, value in wanted.items() if name not in plain}
    training = {**_filled(workload.arguments, words), **plain}
    changed = {**_filled(workload.overrides, words), **overriding}
    compiling = {**training, **_filled(workload.compile_arguments, words)}
    trial = {**changed, **_filled(workload.compile_overrides, words)}
    common = {**{name: str(value) for name, value in _filled(variables, words).items()}, **environment}
    return Filled(
        training=(*_command_words(training), *_override_words(changed)),
        compiling=(*_command_words(compiling), *_override_words(trial)),
        environment=common,
        trial={**common, **{name: str(value) for name, value in _filled(workload.compile_environment, words).items()}},
        virtualenv=str(_fill(workload.virtualenv, words)),
        steps=steps,
        every_steps=every,
    )


def _words(layout: Layout, *, steps: int, every: int | None, folder: str, mount: str, source: str) -> Mapping[str, str]:
    """What stands for each word in braces."""
    own = ("nodes", "world", "micro_batch", "accumulation", "global_batch", "tensor", "pipeline", "context")
    return {
        **{name: str(getattr(layout, name)) for name in own},
        "ranks": str(layout.ranks_per_node),
        "replica_batch": str(layout.micro_batch * layout.accumulation),
        "steps": str(steps),
        "every_steps": str(every or 0),
        "run": folder,
        "source": source,
        "checkpoints": f"{folder}/checkpoints",
        "output": f"{folder}/output",
        "data": f"{mount}/trnctl/data",
        "hub": f"{mount}/trnctl/hub",
        "mount": mount,
    }


def planned_steps(workload: WorkloadSpec, arguments: Mapping[str, Value]) -> int:
    """The optimizer steps of a run: the recipe's, or what the user sets the argument to that says when to stop (the
    one whose value is `{steps}` in the recipe). Raises UsageError when that is no positive number."""
    said = _number_of(workload, arguments, "{steps}", "after how many steps the run ends")
    return workload.steps if said is None else said


def checkpoint_steps(workload: WorkloadSpec, arguments: Mapping[str, Value]) -> int | None:
    """The optimizer steps between two checkpoints: the recipe's, or what the user sets the argument to whose value is
    `{every_steps}` there; None where the script does not count in steps. UsageError as `planned_steps`."""
    said = _number_of(workload, arguments, "{every_steps}", "after how many steps the script saves")
    return workload.checkpoint.every_steps if said is None else said


def _number_of(workload: WorkloadSpec, arguments: Mapping[str, Value], word: str, meaning: str) -> int | None:
    for name, value in {**workload.arguments, **workload.overrides}.items():
        if value == word and name in arguments:
            text = str(arguments[name])
            if re.fullmatch(r"[0-9]{1,12}", text) is None or int(text) < 1:
                raise UsageError(
                    f"{name} says {meaning}, and {text!r} is no such number.",
                    remedy=f"Give a whole number, as in --set {name}=100.",
                )
            return int(text)
    return None


def _is_override(workload: WorkloadSpec, name: str) -> bool:
    """Whether what the user sets goes to Hydra: what the recipe overrides, and, in a recipe that overrides anything,
    every dotted name."""
    return name in workload.overrides or bool(workload.overrides and "." in name)


def _check_names(workload: WorkloadSpec, arguments: Mapping[str, Value], environment: Mapping[str, str]) -> None:
    recipes = {**workload.arguments, **workload.overrides}
    for name in arguments:
        rule = OVERRIDE_NAME if _is_override(workload, name) else ARGUMENT_NAME
        if rule.fullmatch(name) is None:
            raise UsageError(
                f"{name!r} cannot be the name of an argument.",
                remedy="Write it without dashes in front, as in --set lr=0.0002.",
            )
        found = {match.group(1) for match in _PLACEHOLDER.finditer(str(recipes.get(name, "")))}
        if found & _DECIDED:
            raise UsageError(
                f"{name} follows from the layout and the run's folder ({', '.join(sorted(found & _DECIDED))}), "
                "and cannot be set by hand: what trnctl reports would not be what runs.",
                remedy="Choose --nodes and --scaling, or write a recipe of your own with another batch.",
            )
    for name in environment:
        if VARIABLE_NAME.fullmatch(name) is None:
            raise UsageError(
                f"{name!r} cannot be the name of an environment variable.",
                remedy="Use letters, digits and underscores, and no digit in front.",
            )


def _as_value(value: Value) -> Value:
    """`true` and `false`, as the command line gives them, are flags as in the recipe."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _filled(values: Mapping[str, Value], words: Mapping[str, str]) -> dict[str, Value]:
    return {name: _fill(value, words) for name, value in values.items()}


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


def _override_words(overrides: Mapping[str, Value]) -> tuple[str, ...]:
    """`name=value`, with true and false in small letters, as Hydra reads them."""
    return tuple(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in overrides.items()
    )

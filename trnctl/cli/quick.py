"""Takes words of the command line as they are, without pydantic, where there is nothing to convert.

typer 0.29 builds a pydantic adapter for every parameter of a command, also to turn a text into a text or nothing into
nothing. Importing pydantic takes longer than all the rest of a start. So each parameter's converter is put behind one
that hands on what is right already; anything else, and every mistake, goes typer's own way. A typer whose parameters
have no such converter is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin

Command = TypeVar("Command")


def quick(command: Command) -> Command:
    """The same command with all its subcommands, whose parameters start sooner."""
    for parameter in getattr(command, "params", ()):
        _hasten(parameter)
    made_late = getattr(command, "get_help_option", None)
    if made_late is not None:
        command.get_help_option = lambda ctx: _hasten(made_late(ctx))  # type: ignore[attr-defined]  # it has one
    for child in getattr(command, "commands", {}).values():
        quick(child)
    return command


def _hasten(parameter: Any) -> Any:
    """The parameter itself, with a quick converter before its own."""
    usual, descriptor = getattr(parameter, "get_runtime_param", None), getattr(parameter, "type_descriptor", None)
    if usual is None or descriptor is None or isinstance(usual, _Quick):
        return parameter
    if getattr(descriptor.parameter_info, "parser", None) is None:
        parameter.get_runtime_param = _Quick(usual, descriptor.annotation)
    return parameter


class _Quick:
    """Stands for a parameter's `get_runtime_param`, and for what that returns."""

    def __init__(self, usual: Callable[[], Any], annotation: object) -> None:
        self._usual = usual
        self._annotation = annotation

    def __call__(self) -> _Quick:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value in the parameter's type; typer's own errors for one that cannot be."""
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        if not many and type(value) is self._annotation:
            return value
        if many and _of_texts(self._annotation) and all(isinstance(item, str) for item in value):
            return list(value)
        return self._usual().coerce(value, param=param, ctx=ctx)


def _of_texts(annotation: object) -> bool:
    return get_origin(annotation) is list and get_args(annotation) == (str,)

"""Global options before and after every command; nothing after `--` is touched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.main import get_command

from trnctl.cli.app import app
from trnctl.cli.argv import COMMAND_VALUES, GLOBAL_FLAGS, GLOBAL_VALUES, PASS_ON, arrange

GLOBALS = [
    ["-c", "f.yaml"], ["--config", "f.yaml"], ["--config=f.yaml"], ["-cf.yaml"], ["-o", "json"], ["-ojson"],
    ["--output=json"], ["--cluster", "ultra1"], ["--profile", "dev"], ["--region", "us-east-2"], ["--sandbox"],
    ["-v"], ["--verbose"], ["--no-color"],
]  # fmt: skip


def leaves(command: object = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[object]]]:
    """Every command of the program with its parameters."""
    command = command or get_command(app)
    children = getattr(command, "commands", {})
    if not children:
        yield path, list(getattr(command, "params", []))
    for name, child in children.items():
        yield from leaves(child, (*path, name))


COMMANDS = [path for path, _ in leaves()]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("option", GLOBALS, ids=" ".join)
def test_a_global_option_means_the_same_before_and_after_every_command(
    command: tuple[str, ...], option: list[str]
) -> None:
    before = arrange([*option, *command])
    after = arrange([*command, *option])
    between = arrange([command[0], *option, *command[1:]])
    assert before == after == between
    assert before.argv == (*option, *command)


def test_every_option_of_a_command_that_takes_a_value_is_known() -> None:
    takes_value: set[tuple[str, str]] = set()
    for path, params in leaves():
        for param in params:
            names = [*getattr(param, "opts", [])]
            if all(name.startswith("-") for name in names) and not getattr(param, "is_flag", False):
                takes_value.update((" ".join(path), name) for name in names)
    missing = {(path, name) for path, name in takes_value if name not in COMMAND_VALUES}
    assert not missing
    assert takes_value, "the walk found no option at all"


def test_no_command_gives_a_global_name_another_meaning() -> None:
    clashes = {
        (" ".join(path), name)
        for path, params in leaves()
        for param in params
        for name in getattr(param, "opts", [])
        if name in GLOBAL_VALUES | GLOBAL_FLAGS
    }
    assert not clashes


def test_what_follows_two_dashes_is_passed_on_untouched() -> None:
    line = arrange(["ssh", "-o", "json", "--", "ls", "-c", "x", "--sandbox", "-v"])
    assert line.argv == ("-o", "json", "ssh")
    assert line.rest == ("ls", "-c", "x", "--sandbox", "-v")


def test_two_dashes_of_a_command_that_passes_nothing_on_stay_typers() -> None:
    line = arrange(["logs", "--", "-odd-run", "--sandbox"])
    assert line.argv == ("logs", "--", "-odd-run", "--sandbox")
    assert line.rest is None


def test_the_value_of_an_option_is_not_taken_for_an_option() -> None:
    line = arrange(["submit", "bert-large", "--set", "-v", "--name", "--sandbox"])
    assert line.argv == ("submit", "bert-large", "--set", "-v", "--name", "--sandbox")


def test_verbose_is_found_among_bundled_flags() -> None:
    assert arrange(["logs", "a3f", "-fv"]).argv == ("-v", "logs", "a3f", "-f")
    assert arrange(["status", "-vv"]).argv == ("-v", "status")


def test_the_commands_that_pass_on_exist() -> None:
    assert {path[0] for path in COMMANDS} >= PASS_ON

"""Commands start without pydantic, and convert and complain as typer does."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.main import get_command

from tests.cli.trnctl_runner import Trnctl
from trnctl.cli.quick import quick


def test_a_command_of_texts_and_flags_never_imports_pydantic() -> None:
    code = (
        "import sys\nfrom trnctl.cli.main import run\ncode = run(['plan', 'llama3-8b', '-N', '4', '-o', 'json'])\n"
        "sys.exit(3 if 'pydantic' in sys.modules else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def called(*words: str) -> dict[str, object]:
    """What a command is given, with quick parameters."""
    given: dict[str, object] = {}
    app = typer.Typer()

    @app.command()
    def command(
        name: str,
        many: list[str] | None = typer.Option(None, "--many"),  # noqa: B008  # typer's own form
        number: int = typer.Option(7, "--number", min=1),
        part: float | None = typer.Option(None, "--part"),
        flag: bool = typer.Option(False, "--flag"),
    ) -> None:
        given.update(name=name, many=many, number=number, part=part, flag=flag)

    quick(get_command(app))(list(words), standalone_mode=False)
    return given


def test_values_have_the_types_that_the_command_asks_for() -> None:
    assert called("a") == {"name": "a", "many": None, "number": 7, "part": None, "flag": False}
    words = ("7", "--many", "x", "--many", "y", "--number", "3", "--part", "0.5", "--flag")
    assert called(*words) == {"name": "7", "many": ["x", "y"], "number": 3, "part": 0.5, "flag": True}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-N", "x"], "valid integer"),
        (["--colour"], "No such option"),
        ([], "Missing argument"),
        (["bert-large", "--name"], "requires an argument"),
    ],
)
def test_mistakes_are_told_in_typer_s_words(nowhere: Trnctl, words: list[str], told: str) -> None:
    assert told in nowhere("submit", *words, code=2, target="aws").talk

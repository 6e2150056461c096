"""What `trnctl parallel` shows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from trnctl.cli.output import Screen, finding_line
from trnctl.cli.words import plural
from trnctl.errors import UsageError

if TYPE_CHECKING:
    from trnctl.plan.smp import Imported
    from trnctl.plan.targets import Compiled


def imported(screen: Screen, found: Imported) -> None:
    """Our section as YAML, ready to be pasted into a recipe; what a person should know of it on stderr."""
    from trnctl.plan.smp import section

    if screen.json:
        screen.data({**section(found.words), "findings": [one.as_json() for one in found.notices]})
        return
    import yaml

    screen.text(yaml.safe_dump(section(found.words), sort_keys=False, allow_unicode=True))
    for notice in found.notices:
        screen.err.print(finding_line(notice))
    screen.say("  next: backend: fsdp there moves it to open PyTorch; trnctl plan RECIPE judges it", style="dim")


def compiled(screen: Screen, made: Compiled, folder: str | None) -> None:
    """The documents, each under its name, and the commands; with a folder, the documents written there."""
    if folder is not None:
        for name, text in made.documents.items():
            _write(Path(folder), name, text)
    if screen.json:
        screen.data(made.as_json())
    elif folder is not None:
        screen.done({}, f"wrote {plural(len(made.documents), 'document')} to {folder}")
    elif len(made.documents) == 1 and not made.steps:
        screen.text(next(iter(made.documents.values())))
    else:
        for name, text in made.documents.items():
            screen.text(f"# ---- {name}\n{text}")
        for step in made.steps:
            variables = [f"{name}={shlex.quote(value)}" for name, value in step.environment.items()]
            screen.text(f"# ---- {step.name}, on each node\n{' '.join([*variables, *map(_word, step.argv)])}")
    if not screen.json:
        for finding in made.downgrades:
            screen.err.print(finding_line(finding))


def _word(word: str) -> str:
    """Quoted for a shell, but for the variables that the batch script sets."""
    return f'"{word}"' if word.startswith("$") else shlex.quote(word)


def _write(folder: Path, name: str, text: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{folder / name} cannot be written: {error.strerror}", remedy="choose another --write folder"
        ) from error

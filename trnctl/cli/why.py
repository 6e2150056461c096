"""`trnctl why`: cause, evidence and remedy, of a run, of the cluster, of a saved file; or what a code means."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trnctl.cli.session import Session
from trnctl.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from trnctl.actions.why import Answer
    from trnctl.cli.output import Screen

ALIASES = ("diagnose", "explain")
_MOST_LEFT_OUT = 5  # files of a folder that are named because they could not be judged


def register(app: typer.Typer) -> None:
    """Add the command of this module under its names."""
    app.command()(why)
    for name in ALIASES:
        app.command(name, hidden=True)(why)


def why(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(metavar="[RUN|cluster|FILE|-|CODE]", help="A run, a saved log or dump, or a finding's code."),
    ] = "cluster",
) -> None:
    """Say why something failed: cause, evidence, remedy. Without a word: of the cluster."""
    from trnctl.cli import why_screens as screens
    from trnctl.cli.output import Screen

    session: Session = context.obj
    screen = Screen(session)
    if what == "-" or Path(what).exists():
        screens.answer(screen, _of_files(what))
    elif what == "cluster":
        screens.answer(screen, _of_cluster(session))
    elif _is_path(what):
        raise UsageError(f"there is no file {what}", remedy="check the path; - reads standard input")
    else:
        _of_word(session, screen, what)


def _of_files(name: str) -> "Answer":
    from trnctl.actions.why import why_files
    from trnctl.cli.saved import opened
    from trnctl.diagnose.evidence import Origin

    left_out: list[str] = []
    found = why_files(((Origin(file=file), chunks) for file, chunks in opened(name, left_out)), name)
    more = [f"{len(left_out) - _MOST_LEFT_OUT} more were left out"] if len(left_out) > _MOST_LEFT_OUT else []
    return replace(found, notes=(*left_out[:_MOST_LEFT_OUT], *more))


def _of_cluster(session: Session) -> "Answer":
    from trnctl.actions.why_now import why_cluster

    return why_cluster(session.open(), session.name_and_region()[2])


def _of_word(session: Session, screen: "Screen", word: str) -> None:
    """A code, else a run of the cluster that is meant."""
    from trnctl.actions.why import near_codes, why_code
    from trnctl.actions.why_now import why_run
    from trnctl.cli import why_screens as screens

    explanation = why_code(word.lower().replace("_", "-"))
    if explanation is not None:
        screens.explanation(screen, explanation)
        return
    near = near_codes(word.lower().replace("_", "-"))
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    if not session.cluster and session.find_file() is None:
        raise NotFoundError(
            f"{word} is no file, no code of trnctl's, and no cluster is named that could have such a run",
            remedy=f"{hint}name the cluster with -c FILE or --cluster NAME, or give a file",
        )
    try:
        screens.answer(screen, why_run(session.open(), session.name_and_region()[2], word))
    except NotFoundError as error:
        raise NotFoundError(error.message, remedy=f"{hint}{error.remedy}") from error


def _is_path(word: str) -> bool:
    return (
        "/" in word
        or "\\" in word
        or Path(word).suffix.lower() in {".log", ".txt", ".json", ".out", ".err", ".gz", ".tgz"}
    )

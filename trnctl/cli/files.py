"""The user's files: the cluster file, the recipes, ssh keys. The pure loaders in `specs` do the rest."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trnctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnctl.ports import File
    from trnctl.specs.cluster import ClusterFile
    from trnctl.specs.parallelism import Parallelism
    from trnctl.specs.workload import WorkloadSpec


def find_config(name: str) -> str | None:
    """The nearest file of that name in the working folder or above it."""
    here = Path.cwd()
    return next((str(folder / name) for folder in (here, *here.parents) if (folder / name).is_file()), None)


def read_text(path: str, what: str) -> str:
    """The text of a user's file. UsageError when it cannot be read or is not UTF-8."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not UTF-8 text (byte {error.start})", remedy=f"save the {what} as UTF-8 and run again"
        ) from error
    except OSError as error:
        raise UsageError(
            f"the {what} {path} cannot be read: {error.strerror}", remedy="check the path and its permissions"
        ) from error


def write_new(path: str, text: str) -> None:
    """Write a file that must not be there yet. UsageError when it is, or cannot be made."""
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", remedy="name another with --output-file FILE"
        ) from error


def write_files(folder: Path, files: Iterable[File]) -> None:
    """Write a run's files below a folder; scripts hold the values of variables, and are for their writer alone.
    UsageError when that cannot be."""
    try:
        for file in files:
            target = folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            mode = 0o700 if file.executable else 0o600 if file.secret else 0o644
            target.touch(mode)
            target.chmod(mode)  # of one that was there
            target.write_text(file.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written to: {error.strerror}", remedy="name another folder with --write DIR"
        ) from error


def newest(folder: Path, pattern: str) -> str:
    """The last path that a pattern finds in a folder, by name; '' without one."""
    return max(map(str, folder.glob(pattern)), default="")


def local_keys() -> list[str]:
    """The ed25519 keys of this machine's user, by their private halves, as in `~/.ssh/id_ed25519`. Only the public
    halves are read."""
    found = []
    for public in sorted(Path("~/.ssh").expanduser().glob("*.pub")):
        try:
            kind = public.read_text(encoding="utf-8").partition(" ")[0]
        except (OSError, UnicodeDecodeError):  # unreadable or no key: then it is no suggestion
            continue
        if kind == "ssh-ed25519" and public.with_suffix("").is_file():
            found.append(f"~/.ssh/{public.stem}")
    return found


def read_cluster_file(path: str, edited: str | None = None) -> ClusterFile:
    """A whole cluster file, or what it would be with that text; UsageError holds every problem at once."""
    from trnctl.specs.loading import load_cluster_file

    return load_cluster_file(read_text(path, "cluster file") if edited is None else edited, path)


def replace_text(path: str, text: str) -> None:
    """Write a user's file anew, in one step and with its own permissions. UsageError when that cannot be."""
    target = Path(path).resolve()
    part = target.with_name(f".{target.name}.trnctl")
    try:
        part.write_text(text, encoding="utf-8")
        part.chmod(target.stat().st_mode & 0o777)
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", remedy="write the change into it by hand"
        ) from error


@dataclass(frozen=True)
class RecipeText:
    """A recipe's text, and where it lies."""

    text: str
    path: str


def read_workload(name: str, file: ClusterFile | None) -> WorkloadSpec:
    """A recipe by name (the user's own first, then the catalogue) or by path. UsageError names the nearest."""
    from trnctl.specs.workload_loading import load_workload

    found = read_workload_text(name, file)
    return load_workload(found.text, found.path)


def recipe_path(name: str, file: ClusterFile | None) -> str:
    """The file that a recipe is read from."""
    return read_workload_text(name, file).path


def read_workload_text(name: str, file: ClusterFile | None) -> RecipeText:
    """The text of a recipe, as `read_workload` finds it."""
    from trnctl.render import templates

    if name.endswith((".yaml", ".yml")) or "/" in name:
        return RecipeText(read_text(name, "recipe"), name)
    if file and name in file.workloads:
        path = str(Path(file.path).parent / Path(file.workloads[name]).expanduser())
        return RecipeText(read_text(path, "recipe"), path)
    known = workload_names(file)
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"there is no workload {name}", remedy=f"{hint}trnctl workloads list shows all: {', '.join(known)}"
        )
    shipped = f"workloads/{name}.yaml"
    return RecipeText(templates.read(shipped), shipped)


def read_own_workloads(file: ClusterFile) -> dict[str, WorkloadSpec]:
    """The recipes that a cluster file names, by name."""
    return {name: read_workload(name, file) for name in file.workloads}


def read_workloads(file: ClusterFile | None) -> list[WorkloadSpec]:
    """All recipes that can be named; one of the user's own that cannot be read is left out."""
    found = []
    for name in workload_names(file):
        with suppress(UsageError):
            found.append(read_workload(name, file))
    return found


def workload_names(file: ClusterFile | None) -> list[str]:
    """All recipes that can be named: the user's own and the catalogue."""
    from trnctl.render import templates

    shipped = [Path(name).stem for name in templates.names("workloads/")]
    return sorted({*shipped, *(file.workloads if file else ())})


def read_layout(name: str, file: ClusterFile | None) -> WorkloadSpec | Parallelism:
    """A recipe, or the words of a file that has a `parallelism` section and nothing else."""
    from trnctl.specs.parallelism_loading import load_parallelism
    from trnctl.specs.reading import read

    if name.endswith((".yaml", ".yml")) or "/" in name:
        text = read_text(name, "recipe")
        if read(text, name).keys() == ("parallelism",):
            return load_parallelism(text, name)
    return read_workload(name, file)


def secret_text(option: str, given: str | None) -> str:
    """What an option says, or what the file holds that it names as @FILE, so that a token need not stand on the command
    line. UsageError when the file cannot be read or is empty."""
    if not given or not given.startswith("@"):
        return given or ""
    try:
        text = Path(given[1:]).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {given} cannot be read: {error}", remedy="check the path after the @") from error
    if not text:
        raise UsageError(f"{option} {given}: the file is empty", remedy="write a command or a URL into it")
    return text

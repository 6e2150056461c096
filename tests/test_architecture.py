"""The rules of the house that a machine can check: who imports whom, who touches the outside, how big things grow."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# What each part of the package may import besides itself, the errors and the findings. The records that pass through
# the doors are values and may be used where no door is walked through. The texts of the templates are wanted where
# they are sent (targets) and where the tools that they call are emulated (sandbox).
MAY_IMPORT: dict[str, set[str]] = {
    "findings": set(),
    "errors": set(),
    "specs": set(),
    "ports": {"specs"},
    "plan": {"specs", "ports"},
    "render": {"specs", "ports", "plan"},
    "diagnose": {"specs", "ports"},
    "codes": set(),
    "preflight": {"specs", "ports", "codes"},
    "actions": {"specs", "ports", "plan", "render", "diagnose", "preflight", "codes"},
    "adapters": {"specs", "ports"},
    "sandbox": {"specs", "render"},
    "targets": {"specs", "ports", "render", "adapters", "sandbox"},
    "cli": {"specs", "ports", "plan", "render", "diagnose", "actions", "targets", "preflight", "codes"},
    "__main__": {"cli"},
}
# (file, what it may import all the same): reason
ALSO = {("trnctl/cli/sandbox_screens.py", "sandbox"): "shows what the world of the sandbox tells of itself"}

PURE = ("specs", "plan", "render", "diagnose", "codes", "preflight")
READS_PACKAGE_FILES = "trnctl/render/templates.py"  # the templates are files of the package, as constant as its code

# Each foreign package and the only places that may import it (a place is a path, or how a path begins).
CONFINED: dict[str, tuple[str, ...]] = {
    "subprocess": ("trnctl/adapters/", "trnctl/sandbox/"),
    "pty": ("trnctl/adapters/", "trnctl/sandbox/"),
    "boto3": ("trnctl/adapters/aws", "trnctl/sandbox/"),
    "botocore": ("trnctl/adapters/aws", "trnctl/sandbox/"),
    "rich": ("trnctl/cli/",),
    "typer": ("trnctl/cli/",),
    "matplotlib": ("trnctl/cli/study_pictures.py",),
    "moto": ("trnctl/sandbox/",),
    "pcluster": (),
    "click": (),
}

IMPURE_MODULES = {"os", "io", "sys", "glob", "http", "shutil", "socket", "tempfile", "time", "urllib", "importlib"}
IMPURE_BUILTINS = {"open", "input", "print"}
IMPURE_METHODS = {
    "read_text", "read_bytes", "write_text", "write_bytes", "open", "exists", "is_file", "is_dir", "iterdir",
    "glob", "rglob", "mkdir", "unlink", "touch", "resolve", "expanduser", "cwd", "home", "now", "today", "utcnow",
}  # fmt: skip
STARTS_PROCESSES = {"system", "popen", "fork", "posix_spawn", "create_subprocess_exec", "create_subprocess_shell"}

LONGEST_FILE = 400
LONGEST_FUNCTION = 60
EMPTY_NAMES = ("utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "handler", "handlers")
EMPTY_ENDINGS = ("Manager", "Handler", "Helper", "Utils")

# Whoever starts trnctl waits for these, so they are imported where they are used.
HEAVY = ("asyncio", "boto3", "botocore", "jinja2", "matplotlib", "moto", "pcluster", "rich", "urllib.request", "yaml")


@dataclass(frozen=True)
class Module:
    """A Python file: `path` is relative to the checkout, with slashes."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def part(self) -> str:
        """Its place in MAY_IMPORT: the folder or file below trnctl/; '' for trnctl/__init__.py."""
        name = self.path.removeprefix("trnctl/").split("/")[0].removesuffix(".py")
        return "" if name == "__init__" else name

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Line and full dotted name of everything imported, anywhere in the file, `import_module` included."""
        found: list[tuple[int, str]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                package = self.path.split("/")[: -node.level] if node.level else []
                base = ".".join([*package, *([node.module] if node.module else [])])
                found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
            elif isinstance(node, ast.Call) and called(node) in {"import_module", "__import__"}:
                found += [(node.lineno, str(arg.value)) for arg in node.args[:1] if isinstance(arg, ast.Constant)]
        return found


def called(node: ast.Call) -> str:
    """The last word of what is called: `run` in `subprocess.run(…)`."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def modules(folder: str) -> list[Module]:
    paths = sorted((ROOT / folder).rglob("*.py"))
    return [Module(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]


# A rule takes a module and yields (line, what is wrong).
Rule = Callable[[Module], Iterator[tuple[int, str]]]


def directions(module: Module) -> Iterator[tuple[int, str]]:
    """Imports go only the ways that MAY_IMPORT names."""
    if module.part not in MAY_IMPORT and module.part:
        yield 1, f"{module.part} has no row in the table of directions"
        return
    allowed = MAY_IMPORT.get(module.part, set()) | {module.part, "errors", "findings", "__version__"}
    allowed |= {part for path, part in ALSO if path == module.path}
    if module.part == "findings":
        allowed -= {"errors"}
    for line, name in module.imports:
        if name == "trnctl" or name.startswith("trnctl."):
            target = name.split(".")[1] if "." in name else ""
            if target not in allowed:
                yield line, f"{module.part or 'trnctl'} imports {target or 'trnctl itself'}"


def foreign_packages(module: Module) -> Iterator[tuple[int, str]]:
    """Foreign packages and processes stay behind their doors."""
    for line, name in module.imports:
        top = name.split(".")[0]
        if top in CONFINED and not module.path.startswith(CONFINED[top] or ("nowhere",)):
            yield line, f"{top} is imported"
    if not module.path.startswith(CONFINED["subprocess"]):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and (
                called(node) in STARTS_PROCESSES or called(node).startswith(("exec", "spawn"))
            ):
                yield node.lineno, f"{called(node)} starts a process"


def purity(module: Module) -> Iterator[tuple[int, str]]:
    """Specs, plan, render and diagnose are functions of values: no files, no network, no clock, no environment."""
    if module.part not in PURE or module.path == READS_PACKAGE_FILES:
        return
    for line, name in module.imports:
        if name.split(".")[0] in IMPURE_MODULES:
            yield line, f"{name} is imported"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            name = called(node)
            bare = isinstance(node.func, ast.Name)
            if name in (IMPURE_BUILTINS if bare else IMPURE_METHODS):
                yield node.lineno, f"{name}() is called"


def environment_not_code_path(module: Module) -> Iterator[tuple[int, str]]:
    """Only the sandbox, the composition root and the command line know the word; sentences may speak of it."""
    if module.part in {"sandbox", "targets", "cli"}:
        return
    prose = {id(statement.value) for statement in ast.walk(module.tree) if isinstance(statement, ast.Expr)}
    for node in ast.walk(module.tree):
        if id(node) in prose:
            continue
        words = (getattr(node, name, None) for name in ("id", "attr", "arg", "name", "value", "module"))
        if any(isinstance(word, str) and "sandbox" in word.lower() and " " not in word for word in words):
            yield getattr(node, "lineno", 1), "the code speaks of the sandbox"


def size(module: Module) -> Iterator[tuple[int, str]]:
    """Files and functions stay small enough to be read in one go."""
    lines = module.text.count("\n")
    if lines > LONGEST_FILE:
        yield lines, f"the file has {lines} lines, more than {LONGEST_FILE}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield node.lineno, f"{node.name} has {length} lines, more than {LONGEST_FUNCTION}"


def names(module: Module) -> Iterator[tuple[int, str]]:
    """A name says what a thing is: nothing is called a manager, a handler, a helper, utils or common."""
    for word in Path(module.path).with_suffix("").parts:
        if word in EMPTY_NAMES:
            yield 1, f"{word} says nothing"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith(EMPTY_ENDINGS):
            yield node.lineno, f"{node.name} says nothing"


RULES: list[Rule] = [directions, foreign_packages, purity, environment_not_code_path, size, names]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    package = modules("trnctl")
    assert len(package) > 15, "the package was not found"
    assert [f"{module.path}:{line}: {what}" for module in package for line, what in rule(module)] == []


@pytest.mark.parametrize(("rule", "folder"), [(size, "bench"), (names, "bench"), (names, "tests")])
def test_what_stands_beside_the_package_keeps_the_rule(rule: Rule, folder: str) -> None:
    beside = modules(folder)
    assert beside, f"{folder}/ was not found"
    assert [f"{module.path}:{line}: {what}" for module in beside for line, what in rule(module)] == []


# Each row breaks one rule; its last column is a part of the complaint.
BROKEN: list[tuple[Rule, str, str, str]] = [
    (directions, "trnctl/specs/cluster.py", "from trnctl.ports import Job", "specs imports ports"),
    (directions, "trnctl/specs/cluster.py", "from ..ports import Job", "specs imports ports"),
    (directions, "trnctl/findings.py", "from trnctl import errors", "findings imports errors"),
    (
        directions,
        "trnctl/actions/stack.py",
        "def f():\n    from trnctl.adapters import slurm",
        "actions imports adapters",
    ),
    (directions, "trnctl/actions/stack.py", "import trnctl.targets", "actions imports targets"),
    (directions, "trnctl/targets.py", "import_module('trnctl.cli.app')", "targets imports cli"),
    (directions, "trnctl/cli/stack.py", "from trnctl.sandbox import world", "cli imports sandbox"),
    (directions, "trnctl/sandbox/world.py", "from trnctl.actions import submit", "sandbox imports actions"),
    (directions, "trnctl/extra.py", "", "no row in the table"),
    (foreign_packages, "trnctl/actions/submit.py", "import subprocess", "subprocess is imported"),
    (foreign_packages, "trnctl/adapters/slurm.py", "from boto3 import client", "boto3 is imported"),
    (foreign_packages, "trnctl/actions/status.py", "from rich.table import Table", "rich is imported"),
    (foreign_packages, "trnctl/cli/app.py", "import click", "click is imported"),
    (foreign_packages, "trnctl/cli/app.py", "os.execvp('ssh', [])", "execvp starts a process"),
    (purity, "trnctl/render/job.py", "import os", "os is imported"),
    (purity, "trnctl/specs/loading.py", "text = open('f').read()", "open() is called"),
    (purity, "trnctl/specs/loading.py", "text = Path('f').read_text()", "read_text() is called"),
    (purity, "trnctl/plan/cost.py", "today = datetime.now(UTC)", "now() is called"),
    (environment_not_code_path, "trnctl/actions/submit.py", "if sandbox:\n    pass", "speaks of the sandbox"),
    (environment_not_code_path, "trnctl/adapters/aws.py", "x = self.in_sandbox", "speaks of the sandbox"),
    (environment_not_code_path, "trnctl/adapters/aws.py", "x = environ['SANDBOX_HOME']", "speaks of the sandbox"),
    (size, "trnctl/ports.py", "\n" * 401, "more than 400"),
    (size, "trnctl/ports.py", "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
    (names, "trnctl/specs/utils.py", "", "utils says nothing"),
    (names, "trnctl/ports.py", "class JobManager: ...", "JobManager says nothing"),
]


@pytest.mark.parametrize(("rule", "path", "text", "complaint"), BROKEN)
def test_a_broken_rule_is_seen(rule: Rule, path: str, text: str, complaint: str) -> None:
    assert complaint in "\n".join(what for _, what in rule(Module(path, text)))


def test_every_rule_is_shown_broken() -> None:
    assert {rule for rule, *_ in BROKEN} == set(RULES)


@pytest.mark.parametrize(("path", "part"), ALSO)
def test_no_exception_is_kept_that_nothing_needs(path: str, part: str) -> None:
    (module,) = (module for module in modules("trnctl") if module.path == path)
    assert any(name.startswith(f"trnctl.{part}") for _, name in module.imports)


def test_prose_may_explain_the_sandbox() -> None:
    module = Module("trnctl/ports.py", '"""As in the sandbox."""\n\n# a sandbox\nx = "Try trnctl sandbox up."\n')
    assert list(environment_not_code_path(module)) == []


def test_starting_up_imports_nothing_heavy() -> None:
    code = f"import sys, trnctl.cli.app\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr

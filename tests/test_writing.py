"""What must not stand in any file, and what must: documentation where readers look for it."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Pattern -> why it must not stand there. One character of each is bracketed, so that this file does not match itself.
FORBIDDEN = {
    r"\bTO[D]O\b|\bFIX[M]E\b|\bX[X]X\b": "unfinished work is finished or left out, not announced",
    r"[<]{7} |[>]{7} ": "a merge was left unresolved",
    r"\b(deb|security|archive|ports)\.(deb[i]an|ubun[t]u)\.(org|com)\b": "package managers know their own hosts",
    r"\bpyp[i]\.org\b|\bpythonhost[e]d\.org\b|\bnpmj[s]\.(org|com)\b": "package managers know their own hosts",
    r"(?<![\w.])/(wor[k]|User[s])/\w|\.pyen[v]\b": "this path exists on one machine only",
    r"\bissue[s]? (show )?#?\d|\bworkpl[a]ce\b": "a text must be understood without the history behind it",
}  # fmt: skip
# In tests only: behaviour is replaced behind the doors, never under the feet of the code.
PATCHING = re.compile(r"mock\.pat[c]h|mocke[r]\.|monkeypatch\.setat[t]r|@pat[c]h\b")


FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
# Declared and documented by moto's CloudFormationModel, which the emulated resources fill in.
MOTO = {
    "physical_resource_id", "cloudformation_name_type", "cloudformation_type", "has_cfn_attr", "get_cfn_attribute",
    "is_created", "create_from_cloudformation_json", "update_from_cloudformation_json",
    "delete_from_cloudformation_json",
}  # fmt: skip


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of every text file that git knows or would add."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file():
            content = path.read_bytes()
            if b"\0" not in content:
                yield name, content.decode()


def places(pattern: str | re.Pattern[str], name: str, text: str) -> list[str]:
    """`file:line: what was found` for each match."""
    return [f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m.group()}" for m in re.finditer(pattern, text)]


@pytest.mark.parametrize(("pattern", "why"), FORBIDDEN.items())
def test_no_file_holds_what_it_must_not(pattern: str, why: str) -> None:
    found = [place for name, text in texts() if name != "LICENSE" for place in places(pattern, name, text)]
    assert found == [], why


def test_no_test_patches() -> None:
    assert [
        place for name, text in texts() if name.startswith("tests/") for place in places(PATCHING, name, text)
    ] == []


# The bar in the middle of each sample keeps this file from being found.
@pytest.mark.parametrize(
    "sample",
    ["TO|DO", "FIX|ME", "<<<<<<|< HEAD", "deb.deb|ian.org", "https://pyp|i.org/x", "registry.npm|js.org",
     "/wor|k/x", "/User|s/x", "a/.py|env/b", "see iss|ue #12", "iss|ue 2", "work|place"],
)  # fmt: skip
def test_what_must_not_stand_is_seen(sample: str) -> None:
    assert any(re.search(pattern, sample.replace("|", "")) for pattern in FORBIDDEN)


@pytest.mark.parametrize(
    "sample", ["mock.pa|tch('a')", "mock|er.patch('a')", "monkeypatch.seta|ttr(a, 'b')", "@pat|ch('a')"]
)
def test_patching_is_seen(sample: str) -> None:
    assert PATCHING.search(sample.replace("|", ""))


def undocumented(name: str, text: str, promised: set[str]) -> Iterator[str]:
    """Public classes, functions and methods without a docstring, and a module that does not open with a sentence.

    A method that a door promises, or that a class of the same file documents for those below it, is documented there.
    """
    tree = ast.parse(text)
    opening = (ast.get_docstring(tree) or "").split("\n\n")[0].split("\n")
    if not opening[0] or not re.search(r"[.:]$", opening[-1]):
        yield f"{name}:1: does not open with a sentence"
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    yield from (f"{name}:{row}" for row in bare(tree.body, set()))
    for found in classes.values():
        bases = [classes[base.id] for base in found.bases if isinstance(base, ast.Name) and base.id in classes]
        inherited = {node.name for base in bases for node in base.body if isinstance(node, FUNCTION)}
        yield from (f"{name}:{row}" for row in bare(found.body, promised | inherited))


def bare(body: list[ast.stmt], elsewhere: set[str]) -> Iterator[str]:
    """The public definitions without a docstring, but for overloads and those documented elsewhere."""
    for node in body:
        if isinstance(node, (*FUNCTION, ast.ClassDef)) and not node.name.startswith("_"):
            overload = any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)
            if not (ast.get_docstring(node) or overload or node.name in elsewhere):
                yield f"{node.lineno}: {node.name} has no docstring"


def promises() -> set[str]:
    """The names of all methods that are documented where they are declared: of the Protocols and of moto's model."""
    found = set(MOTO)
    sandbox = ROOT / "trnctl" / "sandbox"
    for path in [*(ROOT / "trnctl" / "ports").glob("*.py"), sandbox / "ports.py", sandbox / "aws" / "plain.py"]:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found |= {
                    item.name for item in node.body if isinstance(item, ast.FunctionDef) and ast.get_docstring(item)
                }
    return found


def test_the_package_is_documented() -> None:
    paths = sorted((ROOT / "trnctl").rglob("*.py"))
    promised = promises()
    assert {"run", "observe", "submit"} <= promised
    files = [(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]
    assert [row for name, text in files if text for row in undocumented(name, text, promised)] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1", "does not open with a sentence"),
        ('"""Words without an end"""', "does not open with a sentence"),
        ('"""A sentence."""\ndef f(): ...', "f has no docstring"),
        ('"""A sentence."""\nclass A:\n    """It is."""\n    def g(self): ...', "g has no docstring"),
        ('"""A sentence."""\ndef run(): ...', "run has no docstring"),
    ],
)
def test_what_is_undocumented_is_seen(text: str, complaint: str) -> None:
    assert complaint in "\n".join(undocumented("made.py", text, {"run"}))


def test_a_method_of_a_door_is_documented_once() -> None:
    text = '"""A sentence."""\nclass A:\n    """It is."""\n    def run(self): ...\n    def _own(self): ...'
    assert list(undocumented("made.py", text, {"run"})) == []
    below = (
        text.replace("run", "go").replace("...", "'It does.'", 1)
        + '\nclass B(A):\n    """Too."""\n    def go(self): ...'
    )
    assert list(undocumented("made.py", below, set())) == []


def test_make_has_every_target_that_is_named() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = [
        (name, target)
        for name in ("README.md", ".ci/run", "Makefile", "pyproject.toml")
        for target in re.findall(r"(?:`|^step \d+ |^    )make ([a-z-]+)", (ROOT / name).read_text(), re.MULTILINE)
    ]
    assert ("README.md", "test") in named
    assert (".ci/run", "test") in named
    assert [row for row in named if row[1] not in targets] == []

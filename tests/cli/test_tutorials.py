"""The tutorials of docs/, run as a reader would, so that they cannot rot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.trnctl_runner import Trnctl, empty_folder
from tests.transcripts import ROOT, blocks, changed, commands, follow, missing

DOCS = ROOT / "docs"


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("name", ["tutorial-scaling.md", "tutorial-fsdp.md"])
def test_a_tutorial_does_what_it_says(name: str) -> None:
    with empty_folder() as folder:
        trnctl = Trnctl(folder)
        work = folder / "work"
        work.mkdir()
        environment = {key: value for key, value in trnctl.environment().items() if key != "TRNCTL_TARGET"}
        try:
            said = 0
            for printed in follow(DOCS / name, work, {**environment, "COLUMNS": "100"}):
                print(printed)  # for whoever has to read why the next command failed
                said += bool(printed)
            assert said >= 5
        finally:
            trnctl("sandbox", "down")


def test_every_tutorial_has_commands_that_print_something() -> None:
    for path in sorted(DOCS.glob("tutorial-*.md")):
        typed = [command for block in blocks(path) for command in commands(block)]
        assert len([command for command in typed if command.expected]) >= 5, path.name


TEXT = """\
# A tutorial

```json file=a.json
{"key": 1}
```

```console
$ export NAME=word
$ echo one $NAME; echo two; echo three
one …
three
$ cat a.json
{"key": 1}
```

```diff file=a.json
-{"key": 1}
+{"key": 2}
```

```console
$ grep -c 2 a.json
1
```
"""


def follow_text(text: str, tmp_path: Path) -> str:
    (tmp_path / "t.md").write_text(text)
    work = tmp_path / "work"
    work.mkdir()
    return "".join(follow(tmp_path / "t.md", work, {"PATH": "/usr/bin:/bin"}))


def test_files_are_written_and_changed_and_variables_last(tmp_path: Path) -> None:
    assert "one word\ntwo\nthree\n" in follow_text(TEXT, tmp_path)


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("one …\nthree", "three\none …", "t.md:9: echo one $NAME; echo two; echo three\ndid not print: one …"),
        ("$ cat a.json", "$ cat b.json", "exit code 1"),
        ("$ grep -c 2", "$ grep -c 3", "exit code 1"),
    ],
)
def test_what_a_command_does_not_do_is_told_with_its_line(tmp_path: Path, right: str, wrong: str, told: str) -> None:
    with pytest.raises(AssertionError) as caught:
        follow_text(TEXT.replace(right, wrong), tmp_path)
    assert told in str(caught.value)


def test_a_change_must_find_its_place_once() -> None:
    assert changed("a\nb\nc\n", " a\n-b\n+d\n") == "a\nd\nc\n"
    with pytest.raises(ValueError, match="0 times"):
        changed("a\nc\n", " a\n-b\n+d\n")
    with pytest.raises(ValueError, match="2 times"):
        changed("b\nb\n", "-b\n+d\n")


def test_lines_may_be_left_out_but_not_change_their_order() -> None:
    assert missing(("a", "…", "c…e"), "a\nb\nc d e\n") == ""
    assert missing(("c", "a"), "a\nb\nc\n") == "a"
    assert missing(("x  y",), "  x y  ") == ""

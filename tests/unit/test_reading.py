"""Reading YAML with types, lines and every problem at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trnctl.errors import UsageError
from trnctl.findings import Finding
from trnctl.specs.reading import Section, matching, read


def finished(text: str | bytes, ask: Callable[[Section], object]) -> tuple[Finding, ...]:
    root = read(text, "f.yaml")
    ask(root)
    return root.finish()


def problems(text: str | bytes, ask: Callable[[Section], object] = lambda root: None) -> list[Finding]:
    """What is wrong with a text, after `ask` has read from it what it wants."""
    with pytest.raises(UsageError) as raised:
        finished(text, ask)
    return list(raised.value.findings)


def only(text: str | bytes, ask: Callable[[Section], object] = lambda root: None) -> Finding:
    (finding,) = problems(text, ask)
    return finding


def test_values_of_every_type() -> None:
    root = read(
        "t: x\ni: 4\nn: 1.5\nf: true\nl: [a, b]\nm: {k: v}\nw: {k: 1}\ns: {a: 1, b: x, c: true, d: 2.5}\nc: spot\n",
        "f.yaml",
    )
    assert root.text("t") == "x"
    assert root.integer("i") == 4
    assert root.number("n") == 1.5
    assert root.flag("f") is True
    assert root.texts("l") == ("a", "b")
    assert root.mapping("m") == {"k": "v"}
    assert root.integers("w") == {"k": 1}
    assert root.scalars("s") == {"a": 1, "b": "x", "c": True, "d": 2.5}
    assert root.choice("c", ("on-demand", "spot")) == "spot"
    assert root.finish() == ()


def test_what_is_absent_has_its_default() -> None:
    root = read("x: null\n", "f.yaml")
    assert root.text("x", None) is None
    assert root.integer("i", 3) == 3
    assert root.flag("f", False) is False
    assert root.texts("l", ["d"]) == ("d",)
    assert root.mapping("m") == {}
    assert root.section("s").section("t").text("u", "deep") == "deep"
    assert root.sections("q") == []
    assert root.data("e") == {}
    assert root.finish() == ()


def test_the_shape_tells_how_to_read() -> None:
    root = read("a: x\nb: [1, 2]\nc: {d: 1}\ne:\n", "f.yaml")
    assert [root.shape(key) for key in "abce"] == ["scalar", "list", "mapping", "absent"]
    assert [root.count(key) for key in "abce"] == [0, 2, 0, 0]
    assert root.keys() == ("a", "b", "c", "e")


def test_every_problem_at_once_each_with_its_line() -> None:
    text = "name: 3\nnodes: many\nqueues:\n- {nam: x}\n- {name: y, name: z}\n"

    def ask(root: Section) -> None:
        root.text("name")
        root.integer("nodes")
        for queue in root.sections("queues"):
            queue.text("name")

    found = [(f.code, f.line, f.path) for f in problems(text, ask)]
    assert found == [
        ("not-text", 1, "name"),
        ("wrong-type", 2, "nodes"),
        ("missing-key", 4, "queues[0].name"),
        ("unknown-key", 4, "queues[0].nam"),
        ("duplicate-key", 5, "queues[1].name"),
    ]


def test_the_message_has_one_line_an_error_and_findings_hold_the_warnings_too() -> None:
    root = read("a: 1\nb: 2\n", "f.yaml")
    root.text("a")
    root.integer("b")
    root.problem("careful", "Mind this", "Look.", key="b", level="warning")
    with pytest.raises(UsageError) as raised:
        root.finish()
    assert (
        raised.value.message
        == 'f.yaml:1: a: YAML reads `1` as the number 1, but text is wanted — Put it in quotes: "1".'
    )
    assert [f.level for f in raised.value.findings] == ["error", "warning"]


def test_warnings_alone_do_not_raise() -> None:
    root = read("a: 1\n", "f.yaml")
    root.integer("a")
    root.problem("careful", "Mind this", "Look.", key="a", level="warning")
    (warning,) = root.finish()
    assert (warning.code, warning.line, warning.file) == ("careful", 1, "f.yaml")


@pytest.mark.parametrize(
    ("written", "meaning"),
    [("no", "false"), ("yes", "true"), ("on", "true"), ("3", "the number 3"), ("2.31", "the number 2.31"),
     ("2026-11-29", "a date"), ("1:30:00", "the number 5400"), ("0755", "the number 493"), ("0x1f", "the number 31")],
)  # fmt: skip
def test_text_that_yaml_reads_otherwise_is_refused_with_the_quoted_form(written: str, meaning: str) -> None:
    finding = only(f"x: {written}\n", lambda root: root.text("x"))
    assert f"YAML reads `{written}` as {meaning}" in finding.message
    assert finding.remedy == f'Put it in quotes: "{written}".'
    assert read(f'x: "{written}"', "f.yaml").text("x") == written


@pytest.mark.parametrize("written", ["1e3", "4e-4", "2.31.1", "nope", "cr-1", "10.0.0.0/8", "=", "<<"])
def test_text_that_stays_text(written: str) -> None:
    assert read(f"x: {written}\n", "f.yaml").text("x") == written


@pytest.mark.parametrize("written", ['"4"', "four", "4.0", "010", "1:30", "true", "[4]", "{a: 4}", "4GiB"])
def test_what_is_no_whole_number(written: str) -> None:
    assert only(f"x: {written}\n", lambda root: root.integer("x")).code == "wrong-type"


@pytest.mark.parametrize(("written", "value"), [("4e-4", 4e-4), ("1_000", 1000.0), ("-.5", -0.5), ("3", 3.0)])
def test_numbers_as_people_write_them(written: str, value: float) -> None:
    assert read(f"x: {written}\n", "f.yaml").number("x") == value


@pytest.mark.parametrize("written", [".nan", ".inf", '"1.5"', "e5", ".", "x", "true"])
def test_what_is_no_number(written: str) -> None:
    assert only(f"x: {written}\n", lambda root: root.number("x")).code == "wrong-type"


def test_bounds_are_inclusive() -> None:
    root = read("a: 1\nb: 5\n", "f.yaml")
    assert (root.integer("a", minimum=1), root.integer("b", maximum=5)) == (1, 5)
    finding = only("a: 0\n", lambda root: root.integer("a", minimum=1, maximum=9))
    assert (finding.code, finding.remedy) == ("out-of-range", "Write at least 1 and at most 9.")


@pytest.mark.parametrize("written", ["yes", "no", "on", "off", "010", "1:30", "2026-11-29", "~", "[1]"])
def test_scalars_refuse_what_reads_differently_than_it_looks(written: str) -> None:
    finding = only(f"x: {{k: {written}}}\n", lambda root: root.scalars("x"))
    assert finding.path == "x.k"


def test_one_text_where_a_list_is_wanted() -> None:
    finding = only("x: 10.0.0.0/8\n", lambda root: root.texts("x"))
    assert finding.remedy == "Write it as a list: x: [10.0.0.0/8]."


@pytest.mark.parametrize(("text", "ask"), [
    ("x: true\n", lambda root: root.section("x")),
    ("x: {a: 1}\n", lambda root: root.flag("x")),
    ("x: {a: 1}\n", lambda root: root.flag_or_text("x", True)),
    ("x: [a]\n", lambda root: root.mapping("x")),
    ("x: [a]\n", lambda root: root.sections("x")),
    ("x: {a: [1]}\n", lambda root: root.mapping("x")),
    ("x: a\n", lambda root: root.data("x")),
])  # fmt: skip
def test_mappings_scalars_and_lists_are_told_apart(text: str, ask: Callable[[Section], object]) -> None:
    assert only(text, ask).code == "wrong-type"


def test_an_unknown_key_is_given_its_nearest() -> None:
    def ask(root: Section) -> None:
        root.integer("min_count", 0)
        root.integer("max_count", 0)

    assert only("max_cuont: 3\n", ask).remedy == "Did you mean `max_count`?"
    assert only("MinCount: 3\n", ask).remedy == "Did you mean `min_count`?"
    assert only("colour: 3\n", ask).remedy == "Known here: min_count, max_count."


def test_duplicate_keys_name_both_lines() -> None:
    finding = only("a: 1\nb: 2\na: 3\n", lambda root: [root.integer(key) for key in "ab"])
    assert (finding.line, finding.message) == (3, "The key `a` stands twice, here and on line 1")


def test_anchors_aliases_and_merge_keys() -> None:
    root = read("base: &b {n: 1, t: x}\nmore: {<<: *b, n: 2}\nboth: {<<: [*b, {n: 9, u: y}]}\nsame: *b\n", "f.yaml")
    assert root.section("more").integer("n") == 2
    assert root.section("more").text("t") == "x"
    assert (root.section("both").integer("n"), root.section("both").text("u")) == (1, "y")
    assert root.section("same").text("t") == "x"


def test_an_alias_within_itself_and_a_bomb_of_aliases_are_refused() -> None:
    assert problems("a: &a [*a]\n")[0].code == "yaml-too-deep"
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    assert "expand to more than" in only(bomb).message
    assert "nested too deeply" in only("[" * 5000).message


@pytest.mark.parametrize("key", ["no", "3", "2026-11-29", "[a]", "{b: c}", "~"])
def test_keys_are_text(key: str) -> None:
    assert only(f"? {key}\n: x\n").code == "key-not-text"


@pytest.mark.parametrize("written", ["!python/object:os.system x", "!!binary aGk=", "!Ref x", "!!set {a}"])
def test_foreign_tags_are_refused(written: str) -> None:
    assert "yaml-tag" in [f.code for f in problems(f"x: {written}\n", lambda root: root.has("x"))]


@pytest.mark.parametrize(
    ("text", "line", "remedy"),
    [
        ("a: 1\n\tb: 2\n", 2, "Indent with spaces, never with tabs."),
        ("a: [1\nb: 2\n", 2, "Check this line"),
        ("a: 1\n---\nb: 2\n", 2, "Keep one document"),
        ("a: 1\nb: *x\n", 2, "Define the anchor"),
        ("a: 1\nb: x: y\n", 2, "Check the indentation, or put a value"),
        ("a: 1\nb: \x07\n", 2, "Remove it."),
        (b"a: 1\nb: \xff\n", 2, "Save it as UTF-8."),
    ],
)
def test_what_is_no_yaml_names_its_line(text: str | bytes, line: int, remedy: str) -> None:
    finding = only(text)
    assert (finding.code, finding.line) == ("yaml-syntax", line)
    assert finding.remedy.startswith(remedy)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "~\n"])
def test_an_empty_file_says_how_to_start(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(text, "f.yaml", to_start="Run init.")
    assert (raised.value.findings[0].code, raised.value.remedy) == ("file-empty", "Run init.")


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert read(b"\xef\xbb\xbfa: x\n", "f.yaml").text("a") == "x"
    assert read("\ufeffa: x\n", "f.yaml").text("a") == "x"


@pytest.mark.parametrize("escape", ["\\0", "\\x07", "\\x7F", "\\x85", "\\ud800", "\\e"])
def test_control_characters_and_half_surrogates_are_refused_everywhere(escape: str) -> None:
    text = f'x: "a{escape}b"\n'
    assert only(text, lambda root: root.text("x", multiline=True)).code == "control-character"
    assert only(f"d: {{{text.strip()}}}\n", lambda root: root.data("d")).code == "control-character"


def test_line_ends_stand_only_in_multiline_texts() -> None:
    text = 'x: "a\\nb\\tc"\n'
    assert only(text, lambda root: root.text("x")).code == "control-character"
    assert read(text, "f.yaml").text("x", multiline=True) == "a\nb\tc"


def test_a_rule_speaks_of_the_value_it_refuses() -> None:
    rule = matching("short", "[a-z]{1,3}", "is too long", "Shorten it.")
    assert read("x: abc\n", "f.yaml").text("x", rule=rule) == "abc"
    finding = only("x: [ab, abcd]\n", lambda root: root.texts("x", rule=rule))
    assert (finding.code, finding.path, finding.message) == ("short", "x[1]", "`abcd` is too long")


def test_data_keeps_everything_as_it_is() -> None:
    root = read('x: {A: [1, {B: null}], C: "no", D: 2026-11-29, E: 1.5, F: true}\n', "f.yaml")
    assert root.data("x") == {"A": [1, {"B": None}], "C": "no", "D": "2026-11-29", "E": 1.5, "F": True}
    assert root.finish() == ()

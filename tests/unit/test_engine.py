"""The template engine: everything is quoted, nothing is missing, and the ways around are counted."""

from __future__ import annotations

import re

import jinja2
import pytest
import yaml
from jinja2 import DictLoader

from trnctl.errors import UsageError
from trnctl.render import engine, templates
from trnctl.render.engine import Language, render
from trnctl.render.quoting import sbatch_value, shell_words, yaml_value


def rendered(language: Language, source: str, **context: object) -> str:
    """A template that is no file, through the real environment of its language."""
    environment = engine._environment(language).overlay(loader=DictLoader({"t": source}))
    return environment.get_template("t").render(context)


def test_every_value_is_quoted_for_its_language() -> None:
    hostile = 'a "b" $(c)'
    assert rendered("yaml", "x: {{ v }}", v=hostile) == 'x: "a \\"b\\" $(c)"'
    assert rendered("bash", "x={{ v }}", v=hostile) == "x='a \"b\" $(c)'"
    assert rendered("sbatch", "#SBATCH --comment={{ v }}", v=hostile) == '#SBATCH --comment="a \\"b\\" $(c)"'
    assert rendered("html", '<p title="{{ v }}">{{ v }}</p>', v='<b> & "c"') == (
        '<p title="&lt;b&gt; &amp; &quot;c&quot;">&lt;b&gt; &amp; &quot;c&quot;</p>'
    )


def test_constants_and_results_of_expressions_are_quoted_too() -> None:
    assert rendered("bash", "{{ 'a b' }} {{ v ~ ' c' }} {{ [v] | join(' ; ') }}", v="x") == "'a b' 'x c' x"


def test_in_bash_a_directive_is_quoted_for_sbatch() -> None:
    text = rendered("bash", "#SBATCH --comment={{ v | directive }}\necho {{ v }}\n", v="it's")
    assert text == "#SBATCH --comment=\"it's\"\necho 'it'\"'\"'s'\n"


def test_verbatim_is_the_way_around() -> None:
    assert rendered("yaml", "{{ v | verbatim }}", v="a: [b]") == "a: [b]"


@pytest.mark.parametrize("language", ["yaml", "bash", "sbatch", "html"])
def test_a_missing_name_is_an_error(language: Language) -> None:
    for source in ("{{ gone }}", "{{ there.gone }}", "{% if gone %}{% endif %}"):
        with pytest.raises(jinja2.UndefinedError):
            rendered(language, source, there={})


@pytest.mark.parametrize(("language", "value"), [
    ("yaml", object()), ("yaml", b"x"), ("yaml", {1: 2}), ("bash", None), ("bash", True), ("bash", {"a": 1}),
    ("bash", [None]), ("sbatch", None), ("sbatch", True), ("sbatch", ["a"]),
    ("html", None), ("html", True), ("html", ["a"]),
])  # fmt: skip
def test_a_value_that_has_no_one_meaning_is_a_mistake_of_ours(language: Language, value: object) -> None:
    with pytest.raises(TypeError):
        rendered(language, "{{ v }}", v=value)


@pytest.mark.parametrize("language", ["yaml", "bash", "sbatch"])
@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x\udfff"])
def test_what_no_text_can_carry_is_refused(language: Language, text: str) -> None:
    with pytest.raises(UsageError):
        rendered(language, "{{ v }}", v=text)


@pytest.mark.parametrize("text", ["a\nb", "a\r"])
def test_a_directive_carries_no_line_end(text: str) -> None:
    with pytest.raises(UsageError, match="line end"):
        sbatch_value(text)


def test_a_key_longer_than_yaml_reads_is_refused() -> None:
    with pytest.raises(UsageError, match="as a key"):
        yaml_value({"k" * 1001: 1})


@pytest.mark.parametrize("value", [0, -3, 10**20, 1.5, 1e-05, 1e22, -0.0, float("inf"), True, False, None])
def test_numbers_and_flags_read_back_as_themselves(value: object) -> None:
    read_back = yaml.safe_load(yaml_value(value))
    assert (type(read_back), read_back) == (type(value), value)


def test_lists_are_words_in_bash() -> None:
    assert shell_words(["a b", 3, 1.5, "$x"]) == "'a b' 3 1.5 '$x'"
    assert shell_words([]) == ""


@pytest.mark.parametrize("value", ["4-00:00:00", "%x-%j.out", "/fsx/runs/a.log", "trnctl:run:train", 16])
def test_plain_directives_stay_plain(value: str | int) -> None:
    assert sbatch_value(value) == str(value)


# -------------------------------------------------------------------------------------------- templates


def test_templates_are_found_by_name() -> None:
    assert "cluster/cluster.yaml.j2" in templates.names("cluster/")
    assert all(name.startswith("cluster/") for name in templates.names("cluster/"))
    assert templates.read("cluster/cluster.yaml.j2").startswith("#")


@pytest.mark.parametrize("name", ["cluster/none.j2", "../pyproject.toml", "cluster", ""])
def test_a_template_that_is_not_there(name: str) -> None:
    with pytest.raises(UsageError):
        templates.read(name)


# Each use of the only way around quoting, with the reason why what it lets through is no value of a user.
VERBATIM: dict[str, set[str]] = {"report/report.html.j2": {"picture"}}  # a picture of ours, whose text is escaped


def test_the_uses_of_verbatim_are_known() -> None:
    found: dict[str, set[str]] = {}
    for name in templates.names():
        if name.endswith(".j2"):
            uses = set(re.findall(r"\{\{\s*([^}]*?)\s*\|\s*verbatim\b", templates.read(name)))
            if uses:
                found[name] = uses
    assert found == VERBATIM


@pytest.mark.parametrize("name", [name for name in templates.names() if name.endswith(".j2")])
def test_templates_hold_no_logic_beyond_for_if_and_include(name: str) -> None:
    words = set(re.findall(r"\{%-?\s*(\w+)", templates.read(name)))
    assert words <= {
        "for",
        "endfor",
        "if",
        "elif",
        "else",
        "endif",
        "include",
        "with",
        "endwith",
        "filter",
        "endfilter",
    }


def within_quotes(line: str) -> list[str]:
    """The `{{ }}` of a line of bash or YAML that stand between quotes."""
    values = re.findall(r"\{\{.*?\}\}", line)
    found, quote = [], ""
    for character in re.sub(r"\{\{.*?\}\}", "\0", re.sub(r"\\\\.", "", line)):
        if character == "\0":
            value = values.pop(0)
            found += [value] if quote else []
        elif character in {"'", '"'}:
            quote = "" if quote == character else quote or character
    return found


def test_values_between_quotes_are_found() -> None:
    assert within_quotes('a "b {{ x }}" {{ y }} "c" \'{{ z }}\'') == ["{{ x }}", "{{ z }}"]


@pytest.mark.parametrize("name", [name for name in templates.names() if name.endswith(".j2")])
def test_no_value_is_quoted_twice(name: str) -> None:
    lines = [line for line in templates.read(name).splitlines() if not line.lstrip().startswith("#")]
    assert [line for line in lines if within_quotes(line)] == []


def test_rendering_again_gives_the_same() -> None:
    context: dict[str, object] = {"storage": {"file_system_id": "fs-1"}}
    assert render("yaml", "cluster/efs.yaml.j2", context) == render("yaml", "cluster/efs.yaml.j2", context)

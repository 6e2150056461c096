"""One strict Jinja environment per language: every `{{ }}` is quoted for its language, and a missing name is an error.

    render("yaml", "cluster/cluster.yaml.j2", {...})     JSON scalars and flow collections
    render("bash", "job/train.sbatch.j2", {...})         shell words
    render("sbatch", "job/directives.j2", {...})         values of #SBATCH lines
    render("html", "report/report.html.j2", {...})       text between tags, and attributes in double quotes

In a bash template, `{{ value | directive }}` quotes for the #SBATCH line on which it stands. The only way around
quoting is the filter `verbatim`; a test lists its uses. A quoted value is a whole value: `"{{ x }}"` or `a{{ x }}b`
quotes twice, so join texts first (`{{ "s3://" ~ bucket }}`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Literal

from trnctl.render import templates
from trnctl.render.quoting import html_text, sbatch_value, shell_words, yaml_value

if TYPE_CHECKING:
    from jinja2 import Environment

Language = Literal["yaml", "bash", "sbatch", "html"]
_QUOTING: Mapping[Language, Callable[[object], str]] = {
    "yaml": yaml_value,
    "bash": shell_words,
    "sbatch": sbatch_value,
    "html": html_text,
}


class _Finished(str):
    """Text that needs no quoting any more."""

    __slots__ = ()


def render(language: Language, template: str, context: Mapping[str, object]) -> str:
    """The text that the template makes of the context. Same input, same output.

    Raises UsageError for a value that the language cannot carry (NUL; a line end in an #SBATCH line). A name that
    the context lacks (jinja2.UndefinedError) or a value of a wrong type (TypeError) is a mistake in our own code.
    """
    return _environment(language).get_template(template).render(context)


@cache
def _environment(language: Language) -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined, Undefined

    quoted = _QUOTING[language]

    def finalize(value: object) -> str:
        if isinstance(value, _Finished | Undefined):
            return str(value)  # raises UndefinedError for the latter
        return quoted(value)

    environment = Environment(  # noqa: S701  # autoescaping is HTML's; `finalize` quotes for our languages
        loader=FunctionLoader(templates.read),
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["verbatim"] = _Finished
    if language == "bash":
        environment.filters["directive"] = lambda value: _Finished(sbatch_value(value))
    return environment

"""How a value is written so that YAML, bash, sbatch and HTML read back exactly that value, whatever it holds."""

from __future__ import annotations

import html
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence

from trnctl.errors import UsageError

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_YAML_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_LONGEST_KEY = 1000  # PyYAML reads no simple key beyond 1024 characters


def yaml_value(value: object) -> str:
    """A JSON scalar or a flow collection, in ASCII, that PyYAML reads back as the same value.

    It differs from `json.dumps` where YAML 1.1 does: characters beyond U+FFFF are one `\\U` escape (PyYAML keeps
    surrogate pairs apart), and a float always has a point and a signed exponent (`1e-05` would be a text).
    """
    if value is None or isinstance(value, int):  # a bool is an int
        return json.dumps(value)
    if isinstance(value, str):
        return f'"{"".join(map(_yaml_character, _checked(value)))}"'
    if isinstance(value, float):
        return _yaml_float(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_yaml_key(key)}: {yaml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return "[" + ", ".join(map(yaml_value, value)) + "]"
    raise TypeError(f"YAML templates take texts, numbers, flags, lists and mappings, not {type(value).__name__}")


def _yaml_character(character: str) -> str:
    if character in _YAML_ESCAPES:
        return _YAML_ESCAPES[character]
    code = ord(character)
    if 0x20 <= code < 0x7F:
        return character
    return f"\\x{code:02X}" if code <= 0xFF else f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _yaml_float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    mantissa, e, exponent = repr(value).partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return mantissa + e + exponent


def _yaml_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key in a YAML template is a text, not {type(key).__name__}")
    if len(key) > _LONGEST_KEY:
        raise UsageError(
            f"The name `{key[:40]}…` has {len(key)} characters, more than a YAML file can carry as a key.",
            remedy=f"Shorten it to at most {_LONGEST_KEY} characters.",
        )
    return yaml_value(key)


def shell_words(value: object) -> str:
    """A word of a bash script; a list becomes its words. Numbers stand as they are."""
    if isinstance(value, str):
        return shlex.quote(_checked(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return " ".join(map(shell_words, value))
    raise TypeError(f"bash templates take texts, numbers and lists of them, not {type(value).__name__}")


def sbatch_value(value: object) -> str:
    """A value of an `#SBATCH` line. UsageError when it holds a line end, which no such line can carry.

    sbatch's rules are not the shell's (tried with Slurm 22.05): a backslash escapes the next character also between
    single quotes, `#` outside quotes begins a comment, `$` and backquotes are plain characters.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"an #SBATCH line takes a text or a number, not {type(value).__name__}")
    text = _checked(str(value))
    if re.search(r"[\n\r]", text):
        raise UsageError(
            f"The value {text!r} holds a line end, which an #SBATCH line cannot carry.", remedy="Write it in one line."
        )
    if re.fullmatch(r"[\w@%+=:,./-]+", text, re.ASCII):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _checked(text: str) -> str:
    """The text itself; UsageError for what neither a script nor a document can carry."""
    if "\0" in text or _SURROGATE.search(text):
        what = "a NUL character" if "\0" in text else "half of a surrogate pair"
        raise UsageError(f"The value {text!r} holds {what}, which no script can carry.", remedy="Remove it.")
    return text


def html_text(value: object) -> str:
    """Text between tags, or in an attribute in double quotes, that a browser shows as that text."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise TypeError(f"an HTML template takes texts and numbers, not {type(value).__name__}")
    return html.escape(str(value))

"""A file against ParallelCluster's schema: what is unknown, misplaced, missing, of the wrong type or out of range."""

from __future__ import annotations

import re
from dataclasses import replace

from trnctl.findings import Level
from trnctl.preflight.belongs import judge_key
from trnctl.preflight.forms import FORMS
from trnctl.preflight.place import Place
from trnctl.preflight.report import Report
from trnctl.preflight.schema import Key, Version
from trnctl.preflight.sections import ROOT, keys_of
from trnctl.preflight.unfilled import braced, stands_for, unfilled
from trnctl.specs.nodes import Entries, Scalar
from trnctl.specs.values import shown, what

# Since then it reads YAML by a constructor of its own, which looks for keys that stand twice and stumbles over merges.
_NO_MERGES_SINCE: Version = (3, 5)
_WANTED = {
    "text": "text", "integer": "a whole number", "number": "a number", "flag": "true or false",
    "texts": "a list of texts", "table": "keys with values", "tables": "a list of keys with values",
    "section": "keys with values", "sections": "a list of keys with values", "actions": "keys with values",
}  # fmt: skip


class SchemaCheck:
    """Walks a file beside the schema of one version and reports what does not fit."""

    def __init__(self, report: Report, version: Version) -> None:
        self._report = report
        self._version = version
        self._tagged = {finding.path for finding in report.findings if finding.code == "yaml-tag"}  # said already

    def run(self, root: Place) -> None:
        """Check the whole file."""
        self._section(root, ROOT, ())

    def _section(self, place: Place, section: str, names: tuple[str, ...]) -> None:
        known = keys_of(section, self._version)
        if isinstance(place.node, Entries) and place.node.merge is not None and self._version >= _NO_MERGES_SINCE:
            there = replace(place, line=place.node.merge[0], column=place.node.merge[1])
            self._report.say("merge-key", there, "ParallelCluster does not read `<<`")
        for name in place.keys():  # noqa: SIM118  # a Place is no mapping
            here = place.at(name)
            if name not in known:
                verdict = judge_key(name, section, names, self._version)
                self._report.say(verdict.code, here, verdict.message, verdict.remedy)
            else:
                self._value(here, known[name], (*names, name + ("[]" if known[name].kind == "sections" else "")))
        for name, key in known.items():
            if key.required and place.at(name).node is None:
                where = names[-1].removesuffix("[]") if names else "The file"
                self._report.say("missing-key", place.at(name), f"{where} needs {name}", f"Add `{name}: …`.")

    def _value(self, place: Place, key: Key, names: tuple[str, ...]) -> None:
        if place.path in self._tagged:
            return
        if isinstance(place.node, Scalar) and place.node.kind == "null":
            self._report.say("empty-value", place, f"{names[-1].removesuffix('[]')} has no value")
        elif key.kind in {"section", "sections", "actions"}:
            self._nested(place, key, names)
        elif key.kind in {"texts", "tables"}:
            self._list(place, key)
        elif key.kind == "table":
            if not place.is_section:
                self._wrong_type(place, key)
        elif key.kind != "any":
            self._scalar(place, key)

    def _nested(self, place: Place, key: Key, names: tuple[str, ...]) -> None:
        if key.kind == "actions":
            self._actions(place, key, names)
        elif key.kind == "section":
            if place.is_section:
                self._section(place, key.section, names)
            else:
                self._wrong_type(place, key)
        elif self._is_list(place, key):
            for item in place.items():
                if item.is_section:
                    self._section(item, key.section, names)
                else:
                    self._wrong_type(item, Key("section"))

    def _actions(self, place: Place, key: Key, names: tuple[str, ...]) -> None:
        """One script with its arguments, or a Sequence of such; beside a Sequence nothing is read."""
        if not place.is_section:
            self._wrong_type(place, key)
        elif not place.at("Sequence"):
            self._section(place, key.section, names)
        elif place.at("Script").node is not None:
            self._report.say("script-and-sequence", place.at("Script"), "Script and Sequence cannot stand together")
        elif self._is_list(place.at("Sequence"), Key("sections")):
            for item in place.at("Sequence").items():
                if item.is_section:
                    self._section(item, key.section, names)
                else:
                    self._wrong_type(item, Key("section"))
            for name in place.keys():  # noqa: SIM118  # a Place is no mapping
                if name != "Sequence":
                    self._report.say("ignored-key", place.at(name), f"{name} beside Sequence is not read")

    def _list(self, place: Place, key: Key) -> None:
        if not self._is_list(place, key):
            return
        for item in place.items():
            if key.kind == "texts":
                self._scalar(item, Key("text", form=key.form, choices=key.choices))
            elif not item.is_section:
                self._wrong_type(item, Key("table"))

    def _is_list(self, place: Place, key: Key) -> bool:
        if not place.is_list:
            self._wrong_type(place, key)
            return False
        count = len(list(place.items()))
        if (key.fewest is not None and count < key.fewest) or (key.most is not None and count > key.most):
            bounds = f"{key.fewest or 0} to {key.most}" if key.most is not None else f"at least {key.fewest}"
            bounds = str(key.most) if key.fewest == key.most else bounds
            self._report.say("list-length", place, f"{count} items stand here", f"Write {bounds}.")
        return True

    # ------------------------------------------------------------------------------------------ single values

    def _scalar(self, place: Place, key: Key) -> None:
        if place.path in self._tagged:
            return
        if not isinstance(place.node, Scalar):
            self._wrong_type(place, key)
        elif key.kind == "text":
            self._text(place, key)
        elif key.kind == "flag":
            if place.flag() is None:
                self._wrong_type(place, key)
        else:
            value = place.integer() if key.kind == "integer" else place.number()
            if value is None:
                self._wrong_type(place, key)
            else:
                self._number(place, key, value)

    def _text(self, place: Place, key: Key) -> None:
        assert isinstance(place.node, Scalar)  # noqa: S101  # the caller has looked
        if place.node.kind != "text":
            self._wrong_type(place, key)
            return
        text = place.text()
        form = FORMS.get(key.form)
        fits = (not key.choices or text in key.choices) and (form is None or form.holds(text))
        free = place.path.endswith("]") and fits  # an argument of a script may be anything
        if not free and (unfilled(text) or (form is not None and not fits and stands_for(form.code, text))):
            self._unfilled(place, text, level="warning" if fits else "error")
        elif key.choices and text not in key.choices:
            self._choice(place, key, text)
        elif form is not None and not fits:
            self._report.say(form.code, place, f"{shown(text)} {form.wrong}", form.remedy)
        elif key.most is not None and len(text) > key.most:
            self._report.say("too-long", place, f"The text has {len(text)} characters", f"Write {key.most} at most.")

    def _choice(self, place: Place, key: Key, text: str) -> None:
        choices = [str(choice) for choice in key.choices]
        if place.path == "Image.Os":
            version = f"{self._version[0]}.{self._version[1]}"
            self._report.say(
                "os-not-supported",
                place,
                f"ParallelCluster {version} does not take {shown(text)}",
                f"Write `Os: {choices[0]}`. Also accepted: {', '.join(choices[1:])}.",
            )
            return
        from difflib import get_close_matches  # wanted only where something is wrong

        by_lower = {choice.lower(): choice for choice in choices}
        near = get_close_matches(text.lower(), by_lower, n=1)
        hint = f"Did you mean `{by_lower[near[0]]}`? " if near else ""
        self._report.say(
            "unknown-value", place, f"{shown(text)} is not known here", f"{hint}Write one of: {', '.join(choices)}."
        )

    def _number(self, place: Place, key: Key, value: float) -> None:
        if key.choices and value not in key.choices:
            self._report.say(
                "unknown-value",
                place,
                f"{value} is not known here",
                f"Write one of: {', '.join(map(str, key.choices))}.",
            )
        low = key.minimum is not None and value < key.minimum
        high = key.maximum is not None and value > key.maximum
        if low or high:
            bounds = [f"at least {key.minimum}"] if key.minimum is not None else []
            bounds += [f"at most {key.maximum}"] if key.maximum is not None else []
            self._report.say("out-of-range", place, f"{value} is out of range", f"Write {' and '.join(bounds)}.")

    def _wrong_type(self, place: Place, key: Key) -> None:
        node = place.node
        assert node is not None  # noqa: S101  # only what stands there has a type
        written = node.text if isinstance(node, Scalar) else braced(node)
        if key.kind != "table" and (unfilled(written) if isinstance(node, Scalar) else written):
            self._unfilled(place, written)
            return
        code = "not-text" if key.kind == "text" and isinstance(node, Scalar) else "wrong-type"
        words = f"Here stands {what(node)}, but {_WANTED[key.kind]} is wanted"
        self._report.say(code, place, words, _mend(place, key))

    def _unfilled(self, place: Place, text: str, *, level: Level = "error") -> None:
        self._report.say("placeholder", place, f"{shown(text)} is still to be filled in", level=level)


def _mend(place: Place, key: Key) -> str:
    """How to write the value that stands there in the type that is wanted."""
    name = re.sub(r"\[\d+\]", "", place.path.rpartition(".")[2])
    node = place.node
    written = node.text if isinstance(node, Scalar) else "…"
    if key.kind == "text" and isinstance(node, Scalar):
        return f'Put it in quotes: "{written}".'
    if key.kind == "texts":
        return f"Write it as a list: {name}: [{written}]."
    if key.kind in {"sections", "tables"}:
        return f"Write it as a list: begin each item of {name} with `- `."
    if key.kind in {"section", "table", "actions"}:
        inside = "Enabled: true" if isinstance(node, Scalar) and node.kind == "flag" else "…: …"
        return f"Write it as keys with values: {name}: {{{inside}}}."
    return "Write true or false." if key.kind == "flag" else f"Write one plain value: {name}: …"

"""Files that are something else: said once, instead of an error for every key that is not ParallelCluster's."""

from __future__ import annotations

import re

from trnctl.findings import Finding
from trnctl.preflight.place import Place
from trnctl.preflight.schema import NEWEST
from trnctl.preflight.sections import ROOT, keys_of

# Sections with which files of ParallelCluster 2 begin; they are written as INI.
_INI = re.compile(
    r"^\[(?:global|aliases|(?:aws|cluster|vpc|queue|ebs|efs|fsx|raid|scaling|dcv|cw_log)\b[^\]\n]*)\]\s*$", re.M
)


# `{{ x }}` and `{% if x %}` anywhere; `${X}`, `%{ if x }` and `<% x %>` where a key or an item would begin.
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|(?:^[ \t]*(?:- )?)(?P<line>\$\{[^}\n]*\}|%\{[^}\n]*\}|<%.*?%>)", re.M)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.M)
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*['\"]?\w+['\"]?.*$", re.M)
_BEGINS = re.compile(r"^[ \t]*(?:Region|Image|HeadNode|Scheduling|SharedStorage|Imds|Build|LoginNodes)[ \t]*:", re.M)


def template_of(text: str, file: str) -> Finding | None:
    """The finding on a text that is a template; None when it is none."""
    found = _TEMPLATE.search(text)
    if found is None:
        return None
    start = found.start("line") if found["line"] else found.start()
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    message = f"{text[start : found.end()]} is the mark of a template, not YAML"
    remedy = "Render the template, and validate what comes out."
    return Finding("template-not-rendered", "error", message, remedy, file=file, line=line, column=column)


def within_another_text(text: str, file: str) -> Finding | None:
    """The finding on a page of Markdown or a shell script in which a configuration stands; None when it is neither."""
    for mark, what, remedy in (
        (_FENCE, "a page of Markdown", "Put what stands between its marks ``` into a file, and validate that."),
        (_HERE_DOCUMENT, "a shell script", "Validate the file that the script writes."),
    ):
        for found in mark.finditer(text):
            begins = _BEGINS.match(text, found.end() + 1)
            if begins:
                line = text.count("\n", 0, begins.start()) + 1
                return _finding(f"This is {what}, in which a configuration begins on line {line}", remedy, file, line)
    return None


def of_version_2(text: str, file: str) -> Finding | None:
    """The finding on a file of ParallelCluster 2; None when it is none."""
    found = _INI.search(text)
    if found is None:
        return None
    line = text.count("\n", 0, found.start()) + 1
    return _finding(
        f"{found[0].strip()} begins a file of ParallelCluster 2",
        "Convert it: pcluster3-config-converter --config-file FILE --output-file NEW (AWS Batch and Slurm only).",
        file,
        line,
    )


def of_another_kind(root: Place, file: str) -> Finding | None:
    """The finding on a mapping that holds none of the keys that make a cluster; None when it holds one, or when it is
    too small to tell."""
    names = root.keys()
    if root.at("Build").is_section and not {"HeadNode", "Scheduling"} & set(names):
        words = "This describes an image, not a cluster: it is for pcluster build-image --image-configuration"
        remedy = "Name the cluster's file."
        return _finding(words, remedy, file, root.at("Build").line)
    if {"Image", "HeadNode", "Scheduling", "SharedStorage", "LoginNodes"} & set(names):
        return None
    if root.at("AWSTemplateFormatVersion") or root.at("Resources").is_section:
        inner = _configuration_within(root.at("Resources"))
        where = inner.path if inner else "ClusterConfiguration"
        return _finding(
            "This is a CloudFormation template",
            f"Put what stands under {where} into a file of its own, and validate that.",
            file,
            inner.line if inner and inner.line else root.line,
        )
    inner = next((place for name in names if (place := root.at(name)).at("HeadNode")), None)
    if inner is not None:
        return _finding(f"The configuration stands under {inner.path}", "Move it to the top level.", file, inner.line)
    if names and not set(names) & set(keys_of(ROOT, NEWEST)):
        others = ", ".join(names[:4])
        return _finding(
            f"None of its keys ({others}) is ParallelCluster's", "Name the cluster's file.", file, root.line
        )
    return None


def _configuration_within(resources: Place) -> Place | None:
    """The configuration of a cluster that a template makes."""
    for name in resources.keys():  # noqa: SIM118  # a Place is no mapping
        place = resources.at(name, "Properties", "ClusterConfiguration")
        if place:
            return place
    return None


def _finding(message: str, remedy: str, file: str, line: int | None) -> Finding:
    return Finding("not-a-cluster-file", "error", message, remedy, file=file, line=line)

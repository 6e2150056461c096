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
    if root.at("Build").is_section:
        words, remedy = "This describes an image (pcluster build-image), not a cluster", "Validate the cluster's file."
        return _finding(words, remedy, file, root.at("Build").line)
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

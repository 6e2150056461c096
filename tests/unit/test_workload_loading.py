"""Recipes: what they say is what is read, and every mistake is told at once, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes import recipe, recipe_text
from trnctl.errors import UsageError
from trnctl.findings import Finding
from trnctl.render import templates
from trnctl.specs.workload_loading import load_workload

SHIPPED = [Path(name).stem for name in templates.names("workloads/")]

SMALLEST = """\
name: mine
title: My own model
source: {repository: https://example.com/me/mine.git, commit: 0123456789012345678901234567890123456789}
script: train.py
arguments: {lr: 0.001, data: "{data}/mine"}
batch: {global: 64, micro: 2, accumulation: 1, sequence: 128}
steps: 10
ranks_per_node: {trn1.32xlarge: 32}
log: {step: 'step (?P<step>\\d+)'}
checkpoint: {pattern: "*.pt"}
"""


def findings(text: str) -> list[Finding]:
    with pytest.raises(UsageError) as caught:
        load_workload(text, "mine.yaml")
    assert caught.value.exit_code == 2
    return list(caught.value.findings)


def complaint(text: str) -> str:
    """The only complaint about a text."""
    (only,) = findings(text)
    return str(only)


@pytest.mark.parametrize("name", SHIPPED)
def test_each_shipped_recipe_loads_under_its_own_name(name: str) -> None:
    assert recipe(name).name == name
    assert recipe(name).sources, "a recipe says where its numbers come from"
    assert recipe(name).published == () or all(row.source for row in recipe(name).published)


def test_bert_large_is_the_public_phase_1() -> None:
    spec = recipe()
    assert (spec.batch.global_size, spec.batch.micro, spec.batch.accumulation) == (16_384, 16, 32)
    assert (spec.steps, spec.batch.sequence) == (28_125, 128)
    assert spec.ranks_per_node == {"trn1.32xlarge": 32, "trn1n.32xlarge": 32}
    assert spec.arguments["steps_this_run"] == "{steps}"
    assert spec.compile_arguments["steps_this_run"] == 5
    assert spec.environment["NEURON_RT_STOCHASTIC_ROUNDING_EN"] == "1"
    assert spec.multi_node_environment["FI_PROVIDER"] == "efa"
    assert not spec.checkpoint.on_signal
    assert spec.checkpoint.complete_when == "zip"
    assert spec.reserved_ports == (48_620,)


def test_a_small_recipe_takes_defaults() -> None:
    spec = load_workload(SMALLEST, "mine.yaml")
    assert spec.compile == "neuron_parallel_compile"
    assert (spec.nodes, spec.master_port, spec.virtualenv) == (1, 2022, "")
    assert spec.log.unit == "seq/s"
    assert spec.checkpoint.complete_when == "exists"


def test_all_problems_come_at_once_with_their_lines() -> None:
    text = (
        SMALLEST.replace("0123456789012345678901234567890123456789", "main")
        .replace("steps: 10", "steps: none")
        .replace("script: train.py", "scripts: train.py")
    )
    found = {(finding.code, finding.line) for finding in findings(text)}
    assert found == {("commit-not-pinned", 3), ("wrong-type", 7), ("missing-key", 1), ("unknown-key", 4)}


@pytest.mark.parametrize(
    ("old", "new", "code", "part"),
    [
        ("steps: 10", "setps: 10\nsteps: 10", "unknown-key", "Did you mean `steps`?"),
        ("name: mine", "name: My Model", "name-format", "small letters"),
        ("script: train.py", "script: ../train.py", "path-not-inside", "below the repository"),
        ("script: train.py", "script: /bin/sh", "path-not-inside", "below the repository"),
        ("global: 64", "global: 100", "batch-product", "is 64, not 100"),
        (r"step (?P<step>\d+)", "step (", "bad-pattern", "no regular expression"),
        (r"step (?P<step>\d+)", "step", "bad-pattern", "needs `step`"),
        (r"step (?P<step>\d+)", r"(?P<step>\d+) (?P<lost>\d)", "bad-pattern", "lost, step"),
        ("{lr: 0.001,", "{--lr: 0.001,", "argument-name", "without dashes"),
        ('"{data}/mine"', '"{date}/mine"', "unknown-placeholder", "Nothing fills {date}"),
        ("steps: 10", 'steps: 10\nenvironment: {"A B": x}', "variable-name", "underscores"),
        ("steps: 10", 'steps: 10\nenvironment: {A: "{mnt}"}', "unknown-placeholder", "{mount}"),
        ("steps: 10", "steps: 10\nreserved_ports: all", "ports-format", "44000,48620"),
        ("steps: 10", "steps: 10\nmaster_port: 80", "out-of-range", "at least 1024"),
        ("steps: 10", "steps: 10\ncompile: jit", "unknown-value", "neuron_parallel_compile, none"),
        ("{trn1.32xlarge: 32}", "{trn1.32xlarge: 32, trn1.2xlarge: 3}", "batch-product", "do not divide 64"),
        ("{trn1.32xlarge: 32}", "{trn1.32xlarge: 32, trn1.2xlarge: 0}", "out-of-range", "1 or more"),
        ("ranks_per_node: {trn1.32xlarge: 32}\n", "", "missing-key", "how many workers"),
        ('pattern: "*.pt"', 'pattern: "*.pt", every_steps: 0', "out-of-range", "at least 1"),
        (r"(?P<step>\d+)'", r"(?P<step>\d+)', first: 2", "out-of-range", "at most 1"),
        (r"(?P<step>\d+)'", r"(?P<step>\d+)', printed_by: node-3", "unknown-value", "last-stage"),
        ("steps: 10", "steps: 10\noverrides: {--a.b: 1}", "argument-name", "without dashes"),
        ("steps: 10", 'steps: 10\ncompile_overrides: {a: "{stepz}"}', "unknown-placeholder", "Nothing fills"),
        ("steps: 10", 'steps: 10\ncompile_environment: {"A-B": x}', "variable-name", "underscores"),
        ("steps: 10", "steps: 10\nfrom_run: {why: weights}", "missing-key", "recipes: [name]"),
        ("steps: 10", "steps: 10\nsoftware: {last_sdk: 2.31.9}", "unknown-value", "2.31.1"),
        ("steps: 10", "steps: 10\nsoftware: {first_sdk: 2.31.1, last_sdk: 2.28.0}", "out-of-range", "Exchange"),
        ("steps: 10", "steps: 10\nchoices: [{what: n, ours: '4', why: so, source: {a: b}}]", "unknown-key", "sources"),
        ('pattern: "*.pt"', 'pattern: "*.pt", complete_when: ready', "unknown-value", "zip, done-file, exists"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_the_way_out(old: str, new: str, code: str, part: str) -> None:
    assert old in SMALLEST
    (only,) = findings(SMALLEST.replace(old, new))
    assert only.code == code
    assert only.line is not None
    assert part in str(only)


def test_braces_that_are_no_placeholder_stay() -> None:
    text = SMALLEST.replace('"{data}/mine"', """'{"a": 1} ${home} {X}'""")
    assert load_workload(text, "mine.yaml").arguments["data"] == '{"a": 1} ${home} {X}'


def test_an_empty_file_says_how_to_start() -> None:
    assert "trnctl workloads new" in complaint("# nothing\n")


def test_every_recipe_survives_with_windows_line_ends() -> None:
    assert load_workload(recipe_text().replace("\n", "\r\n"), "b.yaml") == recipe()

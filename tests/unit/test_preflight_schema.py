"""The schema that is written down, against the one of the ParallelCluster that is installed, key by key."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from trnctl.preflight.forms import FORMS
from trnctl.preflight.schema import NEWEST, OLDEST, Key, shape, shapes, version_of
from trnctl.preflight.sections import ROOT, SECTIONS, keys_of, places
from trnctl.specs.known import systems

KINDS = {
    "String": "text", "Integer": "integer", "Float": "number", "Boolean": "flag", "Raw": "any", "Dict": "table",
}  # fmt: skip
# What each form must take and refuse, beside ParallelCluster's own expression for the same field.
SAMPLES = (
    "", "x", "subnet-0aa11bb2", "subnet-0aa11bb22cc33dd44", "subnet-0AA11bb22cc33dd44", "sg-0aa11bb22cc33dd44", "ami-1",
    "ami-0aa11bb22cc33dd44", "vol-0aa11bb22cc33dd44", "snap-0aa11bb2", "fs-0aa11bb2", "fs-0aa11bb22cc33dd44",
    "fsap-0aa11bb22cc33dd44", "fsvol-0aa11bb22cc33dd44", "fc-0aa11bb22", "backup-0aa11bb22cc33dd44", "10.0.0.0/8",
    "203.0.113.7", "256.0.0.0/8", "10.0.0.0/33", "pl-0aa11bb2", "arn:aws:iam::111122223333:role/x",
    "arn:aws:iam::111122223333:instance-profile/x", "arn:aws:iam::aws:policy/x", "s3://bucket", "my-bucket", "my_b",
    "*", "/fsx", "fsx", "/fsx/", "/fsx/.x", "/a b", "x" * 65, "abc_9", "ABC", "1:05:00", "8:05:00",
    "05:00", "24:00", "5:00", "arn:aws:secretsmanager:us-west-2:1:secret:x", "arn:aws:ssm:us-west-2:1:parameter/x",
    '{"a": 1}', "{a: 1}",
)  # fmt: skip


@pytest.fixture(scope="module")
def theirs() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("pcluster.schemas.cluster_schema", reason="the pcluster extra is not installed")
    return module.ClusterSchema(cluster_name="oracle")


def fields_of(schema: Any, path: tuple[str, ...] = (), ours: str = ROOT) -> Iterator[tuple[str, Any, Key | None]]:
    """Every field of theirs with our key of the same name, and every key of ours that they lack."""
    mine = keys_of(ours, NEWEST) if ours in SECTIONS else {}
    named = {field.data_key or name: field for name, field in schema.fields.items()}
    for name in sorted({*named, *mine}):
        here = (*path, name)
        field, key = named.get(name), mine.get(name)
        yield ".".join(here), field, key
        if field is not None and key is not None and key.section:
            yield from fields_of(field.schema, here, key.section)


def kind_of(field: Any) -> str:
    name = type(field).__name__
    if name == "Nested":
        return "sections" if field.many or field.schema.many else "section"
    if name == "OneOrManyCustomActionField":
        return "actions"
    if name == "List":
        return "tables" if type(field.inner).__name__ == "Dict" else "texts"
    return KINDS[name]


def validators(field: Any) -> Iterator[Any]:
    inner = list(field.inner.validators) if type(field).__name__ == "List" else []
    for validator in (*field.validators, *inner):
        yield from getattr(validator, "validators", [validator])


def test_nothing_is_missing_and_nothing_invented(theirs: Any) -> None:
    both = list(fields_of(theirs))
    assert [path for path, _, key in both if key is None] == []
    assert [path for path, field, _ in both if field is None] == []
    assert len(both) > 300


def test_kinds_and_duties_agree(theirs: Any) -> None:
    wrong = [
        (path, kind_of(field), key.kind, field.required, key.required)
        for path, field, key in fields_of(theirs)
        if key is not None and (kind_of(field), field.required) != (key.kind, key.required)
    ]
    assert wrong == []


def limits(field: Any) -> Mapping[str, object]:
    """Choices and bounds as ParallelCluster has them."""
    found: dict[str, object] = {}
    for validator in validators(field):
        name = type(validator).__name__
        if name == "OneOf":
            found["choices"] = set(validator.choices)
        elif name == "Range":
            found |= {"minimum": validator.min, "maximum": validator.max}
        elif name == "Length":
            exact = validator.equal
            found |= {"fewest": validator.min or exact, "most": validator.max or exact}
    return found


def test_choices_and_bounds_agree(theirs: Any) -> None:
    wrong = []
    for path, field, key in fields_of(theirs):
        for word, value in limits(field).items():
            mine = set(getattr(key, word)) if word == "choices" else getattr(key, word)
            if mine != value and not key_has_its_length_in_a_form(key):
                wrong.append((path, word, mine, value))
        if key is not None and key.choices and "choices" not in limits(field):
            wrong.append((path, "choices", key.choices, None))
    assert wrong == []


def key_has_its_length_in_a_form(key: Key | None) -> bool:
    """`DatabaseName` has 64 characters at most, which its form says."""
    return key is not None and key.form == "database-name"


def test_forms_take_what_parallelcluster_takes(theirs: Any) -> None:
    wrong = []
    for path, field, key in fields_of(theirs):
        checks = [one for one in validators(field) if type(one).__name__ in {"Regexp", "Length", "function"}]
        if key is None or key.kind == "sections" or all(type(one).__name__ == "Length" for one in checks):
            continue
        assert key.form, path
        of_items = list(field.inner.validators) if key.kind == "texts" else checks
        for sample in SAMPLES:
            if accepted(of_items, sample) != bool(FORMS[key.form].holds(sample)):
                wrong.append((path, sample))
    assert wrong == []


def accepted(tests: list[Any], sample: str) -> bool:
    from marshmallow import ValidationError

    try:
        for test in tests:
            test(sample)
    except ValidationError:
        return False
    return True


# ------------------------------------------------------------------------------------------- within the table


def test_every_section_is_reached_and_every_name_is_there() -> None:
    reached = {ROOT} | {key.section for _, key in places(NEWEST) if key.section}
    gone = {key.section for keys in SECTIONS.values() for one in keys.values() for key in shapes(one) if key.until}
    gone |= {name for name in SECTIONS if name.startswith("AwsBatch")}
    assert set(SECTIONS) - reached - gone == set()
    assert reached - set(SECTIONS) == set()


def test_every_form_is_used_and_there() -> None:
    used = {key.form for keys in SECTIONS.values() for one in keys.values() for key in shapes(one) if key.form}
    assert used == set(FORMS)


@pytest.mark.parametrize("version", [(3, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)])
def test_a_key_has_one_shape_in_a_version(version: tuple[int, int]) -> None:
    for section, keys in SECTIONS.items():
        for name, one in keys.items():
            assert sum(key.known(version) for key in shapes(one)) <= 1, f"{section}.{name}"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14", "3.15", "3.16"])
def test_operating_systems_of_a_version(version: str) -> None:
    key = shape(SECTIONS["Image"]["Os"], version_of(version))
    assert key is not None
    assert key.choices == systems(version)


def test_backups_may_be_kept_longer_since_3_16() -> None:
    days = [keys_of("FsxLustreSettings", (3, minor))["AutomaticBackupRetentionDays"].maximum for minor in (15, 16)]
    assert days == [35, 90]


@pytest.mark.parametrize(
    ("words", "version"), [("3.16.1", (3, 16)), ("3.10.0", (3, 10)), ("3.0.2", (3, 0)), ("3.17.0", (3, 16))]
)
def test_versions_beyond_the_tables_are_brought_within(words: str, version: tuple[int, int]) -> None:
    assert version_of(words) == version


@pytest.mark.parametrize("words", ["latest", "2.11.9", "4.0"])
def test_no_version_of_parallelcluster_3_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match=words):
        version_of(words)

"""Recipe text -> what it needs on shared storage: its code, data sets, packages, models."""

from __future__ import annotations

from trnctl.specs.preparation import ARCHIVES, DataSet, HubModel
from trnctl.specs.reading import Section, matching
from trnctl.specs.workload import SHIPPED, Source

COMMIT = matching(
    "commit-not-pinned",
    r"[0-9a-f]{40}",
    "is not a full commit: a branch or a short form can mean another code tomorrow",
    "Write all 40 hexadecimal digits, as `git rev-parse HEAD` prints them.",
)
INSIDE = matching(
    "path-not-inside",
    r"(?!/)(?!(.*/)?\.\.(/|$)).*",
    "leads out of the repository",
    "Write a path below the repository's root, without `..`.",
)
_INSIDE_DATA = matching(
    "path-not-inside",
    r"(?!/)(?!(.*/)?\.\.?(/|$))[^/].*[^/]|[A-Za-z0-9_]",
    "is no path below the folder of data sets",
    "Write the name that the data set gets there, without `..` and without a slash at its ends.",
)
# Whoever reads the recipe, the run's folder or the process list would read it too. `git@host:…` is a user, no secret.
_REPOSITORY = matching(
    "secret-in-address",
    r"(?![a-z+]+://[^/]*@).*|ssh://[^:/@]+@.*",
    "has a user or a password in it",
    "Leave it out; let the head node know it: a deploy key in ~/.ssh, or git's own credential store.",
)
_DATA_SOURCE = matching(
    "data-source",
    r"s3://[a-z0-9][a-z0-9.-]+/.+|https?://[^/@]+/.*[^/]",
    "is no address that data can be fetched from",
    "Write s3://BUCKET/KEY or https://HOST/PATH of a file or tar archive, or s3://BUCKET/FOLDER/, without a user.",
)
_SHA256 = matching("checksum-format", r"[0-9a-f]{64}", "is no SHA-256", "Write 64 hexadecimal digits, from sha256sum.")
_REQUIREMENT = matching(
    "requirement-not-pinned",
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?==[A-Za-z0-9][A-Za-z0-9.+!_-]*",
    "is not pinned: another day brings another version",
    "Write NAME==VERSION.",
)
_MODEL = matching(
    "hub-model",
    r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?",
    "is no name of a model on the hub",
    "Write it as the script asks for it: NAME or OWNER/NAME.",
)


def read_source(root: Section) -> tuple[Source, str]:
    """The repository, or the folder of the user's own code (`workdir`); one of the two."""
    if root.has("workdir"):
        if root.has("source"):
            root.problem(
                "source-and-workdir",
                "The code comes from the repository or from a folder of yours, not from both",
                "Leave one of source and workdir out.",
                key="workdir",
            )
            other = root.section("source")
            for key in ("repository", "commit", "path", "shipped"):  # they have had their complaint
                other.text(key, "")
        return Source("", ""), root.text("workdir")
    section = root.section("source")
    if section.has("shipped"):
        return Source("", "", shipped=section.choice("shipped", SHIPPED)), ""
    source = Source(
        repository=section.text("repository", rule=_REPOSITORY),
        commit=section.text("commit", rule=COMMIT),
        path=section.text("path", "", rule=INSIDE),
    )
    return source, ""


def read_data(section: Section) -> DataSet:
    """One data set."""
    source = section.text("source", rule=_DATA_SOURCE)
    return DataSet(
        path=section.text("path", rule=_INSIDE_DATA),
        source=source,
        unpack=section.flag("unpack", source.endswith(ARCHIVES)),
        sha256=section.text("sha256", "", rule=_SHA256),
        bytes=section.integer("bytes", None, minimum=1),
        files=section.integer("files", None, minimum=1),
        match=section.text("match", "*"),
    )


def read_hub(section: Section) -> HubModel:
    """One model."""
    return HubModel(
        model=section.text("model", rule=_MODEL),
        revision=section.text("revision", rule=COMMIT),
        files=section.texts("files", rule=INSIDE),
    )


def read_requirements(root: Section) -> tuple[str, ...]:
    """Packages, each with its exact version."""
    return root.texts("requirements", rule=_REQUIREMENT)

"""The codes of all findings that trnctl's own code makes, as one table: what each means and what to do about it.

A code is kebab-case, stands here once, and is never given a second meaning. Findings on a particular file say more;
this table is what a person reads who has only the code (`trnctl why CODE`). Two families are open: `pcluster-…`
(ParallelCluster's own validators, by their names) and the signatures of `diagnose`, which document themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trnctl.codes.account import ACCOUNT
from trnctl.codes.clusters import CLUSTERS
from trnctl.codes.files import FILES
from trnctl.codes.machine import MACHINE
from trnctl.codes.nodes import NODES
from trnctl.codes.runs import RUNS
from trnctl.codes.storage import STORAGE
from trnctl.findings import Level

# ParallelCluster's validators give codes of their own: this, then the validator's name in kebab-case.
PCLUSTER = "pcluster-"


@dataclass(frozen=True)
class Code:
    """`level` is the usual one; a finding that is worse or milder than usual says so itself."""

    code: str
    level: Level
    meaning: str
    remedy: str


ROWS: tuple[Code, ...] = tuple(Code(*row) for row in (*FILES, *CLUSTERS, *STORAGE, *ACCOUNT, *MACHINE, *RUNS, *NODES))
CODES: Mapping[str, Code] = {row.code: row for row in ROWS}


def explained(code: str) -> Code | None:
    """The row of a code, also of one that ParallelCluster's validators give; None when there is no such code."""
    if code in CODES:
        return CODES[code]
    if code.startswith(PCLUSTER):
        name = "".join(word.capitalize() for word in code.removeprefix(PCLUSTER).split("-"))
        return Code(
            code,
            "error",
            f"ParallelCluster's own {name}Validator has something to say; the finding holds its words.",
            "Change what it names, or suppress it if you know better: --suppress " + code,
        )
    return None

"""A variable of a run may be a token: where its value may stand, and where never."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from tests.fakes import ScriptedShell
from tests.job_folder import make_job_folder
from tests.unit.test_submit import plan
from trnctl.actions.submit import Wishes
from trnctl.adapters.slurm import SlurmQueue
from trnctl.cli.run_screens import commands
from trnctl.ports import Completed
from trnctl.render.agent import agent

SECRET = "hunter2-is-no-token"
WISHES = Wishes(nodes=2, environment={"HF_TOKEN": SECRET})
# What a worker sees of all processes while it trains: their arguments.
LOOK = """
from pathlib import Path
words = []
for one in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        words.append(one.read_bytes().replace(bytes(1), b" ").decode(errors="replace"))
    except OSError:
        pass
Path(os.environ["SEEN"] + ".arguments").write_text(chr(10).join(words))
Path(os.environ["SEEN"] + ".token").write_text(os.environ["HF_TOKEN"])
"""


def test_of_all_files_of_a_run_only_its_scripts_hold_it() -> None:
    made = plan(WISHES)
    holding = {file.name for file in made.submission.files if SECRET in file.text}
    assert holding == {"compile.sbatch", "train.sbatch"}, "the agent writes these for their owner alone"
    manifest = json.loads(next(file.text for file in made.submission.files if file.name == "run.json"))
    assert manifest["environment_names"] == ["HF_TOKEN"]


def test_no_command_line_holds_it_on_the_way_to_the_head_node() -> None:
    made = plan(WISHES)
    assert SECRET not in " ".join(commands(made))
    answer = json.dumps({"run": made.run, "folder": "/f", "jobs": {"train": "1"}, "again": False})
    seen: list[tuple[str, str]] = []

    class Listening(ScriptedShell):
        def run(self, argv: object, *, stdin: str | None = None, timeout: float) -> Completed:
            seen.append((str(argv), stdin or ""))
            return Completed((), 0, f"trnctl {json.dumps({'ok': json.loads(answer)})}\n", "")

    SlurmQueue(Listening(), agent()).submit(made.submission)
    [(argv, stdin)] = seen
    assert SECRET not in argv
    assert SECRET in stdin


def test_nobody_on_the_nodes_reads_it_in_an_argument_a_log_or_a_record(tmp_path: Path) -> None:
    job = make_job_folder(tmp_path, environment={"HF_TOKEN": SECRET})
    code, said = job.run("train", STAND_IN=LOOK)
    assert code == 0, said
    assert (job.mount / "seen.json.token").read_text() == SECRET, "the worker has it"
    arguments = (job.mount / "seen.json.arguments").read_text()
    assert "torchrun" in arguments
    assert SECRET not in arguments
    assert SECRET not in said
    holding = {path for path in job.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()}
    assert {path.name for path in holding} == {"train.sbatch", "compile.sbatch", ".node-train.sh"}
    assert stat.S_IMODE((job.folder / ".node-train.sh").stat().st_mode) == 0o600

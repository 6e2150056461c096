"""Whatever a text holds, YAML, bash, sbatch and ParallelCluster read back exactly that text."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.oracles import load_in_pcluster
from tests.unit.test_render_cluster import QUEUE, SPEC
from trnctl.errors import UsageError
from trnctl.render.cluster import cluster_document
from trnctl.render.engine import render
from trnctl.render.quoting import sbatch_value, shell_words, yaml_value
from trnctl.specs.cluster import Action, CustomActions, NodeActions, Storage
from trnctl.specs.loading import load_cluster_file

# Texts that have broken such tools before, besides all that hypothesis invents.
TRAPS = (
    "", " ", "no", "Yes", "~", "null", "1e3", "0x1f", "0755", "1:30:00", "2026-11-29", "=", "<<", "*a", "&a", "!x",
    "%x", "@x", "`id`", "$(id)", "${HOME}", "$HOME", "a b", "a\tb", "a\nb", "a\r\nb", "a'b", 'a"b', "a\\", "\\n", "'",
    '"', "\\", "a: b", "a #b", "- a", "[a", "{a", "}}", "{{ x }}", "{% x %}", "#", "a;b", "a&b", "a|b", ">x", "!!",
    "-n", "--x", "é", "😀", "\u2028", "\ufeff", "\x7f", "\x85", "\xa0", "\ufffe", "\uffff", "\x1b[31m", "\x01",
    "x" * 3000,
)  # fmt: skip
CARRIED = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
ANY = st.one_of(CARRIED, st.sampled_from(TRAPS))
ONE_LINE = ANY.filter(lambda text: not set("\n\r") & set(text))
# What the loader lets into a tag or an argument.
WRITTEN = ANY.filter(lambda text: all(c in "\n\t" or c.isprintable() or c in "\xa0\u2028\ufeff" for c in text))
SCALARS = st.one_of(ANY, st.integers(), st.floats(allow_nan=False), st.booleans(), st.none())
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(ANY.filter(lambda k: len(k) <= 1000), inner, max_size=4)
    ),
    max_leaves=12,
)

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
fewer = settings(few, max_examples=15)


@few
@given(DATA)
def test_yaml_reads_back_any_value(value: object) -> None:
    assert yaml.safe_load(f"x: {yaml_value(value)} # end\n") == {"x": value}


@pytest.mark.parametrize("text", TRAPS)
def test_yaml_reads_back_every_trap(text: str) -> None:
    assert yaml.safe_load(f"x: {yaml_value(text)}\ny: 1\n") == {"x": text, "y": 1}
    assert yaml_value(text).isascii()


@few
@given(st.dictionaries(WRITTEN.filter(bool), WRITTEN, min_size=1, max_size=5), st.lists(WRITTEN, max_size=5))
@example({"no": "yes", "a b": '"'}, ["$(id)", "\n", "😀"])
def test_pcluster_gets_tags_and_arguments_as_they_are(tags: dict[str, str], args: list[str]) -> None:
    assume(all(len(key) <= 128 and len(value) <= 256 for key, value in tags.items()))
    assume(not any(key.startswith("parallelcluster:") for key in tags))
    actions = CustomActions(head=NodeActions(configured=(Action("s3://b-1/x.sh", tuple(args)),)))
    spec = replace(SPEC, tags=tags, custom_actions=actions)
    loaded = load_in_pcluster(spec.name, cluster_document(spec))
    assert {tag.key: tag.value for tag in loaded.tags} == tags
    assert (loaded.head_node.custom_actions.on_node_configured.args or []) == args
    merged = cluster_document(replace(spec, extra={"Monitoring": {"DetailedMonitoring": True}}))
    again = load_in_pcluster(spec.name, merged)
    assert {tag.key: tag.value for tag in again.tags} == tags


@few
@given(ANY)
def test_no_value_changes_the_document_around_it(text: str) -> None:
    """Even where the loader would have refused it: the renderer does not rely on the loader."""
    plain = yaml.safe_load(cluster_document(replace(SPEC, storage=(Storage("efs", "/a", "b"),), queues=(QUEUE,))))
    spec = replace(SPEC, name=text, storage=(Storage("efs", text, text),), queues=(replace(QUEUE, name=text),))
    made = yaml.safe_load(cluster_document(spec))
    assert made["Scheduling"]["SlurmQueues"][0].pop("Name") == text
    assert plain["Scheduling"]["SlurmQueues"][0].pop("Name") == "compute1"
    assert (made["SharedStorage"][0].pop("Name"), made["SharedStorage"][0].pop("MountDir")) == (text, text)
    del plain["SharedStorage"][0]["Name"], plain["SharedStorage"][0]["MountDir"]
    assert made == plain


@few
@given(
    st.dictionaries(WRITTEN.filter(lambda key: 0 < len(key) <= 128 and not set("\n\t") & set(key)), WRITTEN, max_size=4)
)
def test_a_cluster_file_carries_any_tag_to_the_document(tags: dict[str, str]) -> None:
    assume(all(len(value) <= 256 for value in tags.values()))
    assume(not any(key.lower().startswith(("aws:", "parallelcluster:")) for key in tags))
    assume(not any("\u2028" in key + value or "\x85" in key + value for key, value in tags.items()))
    written = yaml.safe_dump(
        {
            "cluster": {
                "name": "small1",
                "region": "us-west-2",
                "network": {"head_subnet": "subnet-0aa11bb22cc33dd41", "compute_subnet": "subnet-0aa11bb22cc33dd42"},
                "head_node": {"ssm": True},
                "tags": tags,
            }
        }
    )
    made = yaml.safe_load(cluster_document(load_cluster_file(written, "t.yaml").cluster))
    assert {tag["Key"]: tag["Value"] for tag in made.get("Tags", [])} == tags


@fewer
@given(st.lists(ANY, max_size=12))
@example(list(TRAPS))
def test_bash_gets_every_word(texts: list[str]) -> None:
    script = f"set -euo pipefail\nprintf '%s\\0' {shell_words(texts)} end\n"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc"], input=script.encode(), capture_output=True, timeout=20, check=True
    )
    assert done.stderr == b""
    assert done.stdout.decode().split("\0")[:-1] == [*texts, "end"]


@fewer
@given(st.lists(ANY, min_size=1, max_size=6))
@example(list(TRAPS))
def test_bash_gets_variables_and_arrays(texts: list[str]) -> None:
    lines = [f"v{number}={shell_words(text)}" for number, text in enumerate(texts)]
    shows = " ".join(f'"$v{number}"' for number in range(len(texts)))
    script = "\n".join([*lines, f"a=({shell_words(texts)})", f"""printf '%s\\0' {shows} "${{a[@]}}" """])
    done = subprocess.run(["bash", "-u"], input=script.encode(), capture_output=True, timeout=20, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [*texts, *texts]


@pytest.fixture(scope="module")
def slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Just enough for sbatch to read its options; no controller listens."""
    if shutil.which("sbatch") is None:
        pytest.skip("sbatch is not installed")
    path = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    path.write_text(
        "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\nAuthType=auth/none\nMessageTimeout=1\n"
        "NodeName=localhost\nPartitionName=p Nodes=localhost\n"
    )
    return path


def sbatch_reads(line: str, slurm_conf: Path, folder: Path) -> str:
    """What sbatch makes of the comment of an #SBATCH line: it tells before it looks for a controller."""
    script = folder / "job.sbatch"
    script.write_bytes(f"#!/bin/bash\n#SBATCH {line}\n".encode())
    done = subprocess.run(
        ["sbatch", "-vv", "--test-only", str(script)],
        env={"PATH": "/usr/bin:/bin", "SLURM_CONF": str(slurm_conf), "LC_ALL": "C.UTF-8"},
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    told = done.stderr.decode().split("sbatch: comment             : ", 1)
    return told[1].split("\nsbatch: ", 1)[0] if len(told) == 2 else done.stderr.decode()


@pytest.mark.sandbox
@fewer
@given(text=ONE_LINE.filter(bool))
@example(text="a\\")
@example(text='a\' "b" #c')
@example(text="$(id) `id` $HOME")
@example(text="\u2028😀\x85")
def test_sbatch_gets_the_value_of_a_directive(text: str, slurm_conf: Path, tmp_path: Path) -> None:
    assert sbatch_reads(f"--comment={sbatch_value(text)} --open-mode=append", slurm_conf, tmp_path) == text


@given(st.text(max_size=20))
@settings(max_examples=30, deadline=None)
def test_what_cannot_be_carried_is_refused_and_never_altered(text: str) -> None:
    for broken in (f"{text}\0", f"{text}\ud800"):
        with pytest.raises(UsageError):
            render("yaml", "cluster/efs.yaml.j2", {"storage": {"file_system_id": broken}})
        with pytest.raises(UsageError):
            shell_words([broken])
        with pytest.raises(UsageError):
            sbatch_value(broken)

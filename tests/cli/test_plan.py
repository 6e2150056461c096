"""`trnctl plan` and `trnctl parallel` as a person runs them: screens, exit codes, files."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.trnctl_runner import EXAMPLES, SIXTEEN, Trnctl
from tests.recipes import recipe_text

SVG = "{http://www.w3.org/2000/svg}"


def cell(out: str, row: str, column: int) -> str:
    """A cell of the first table: its row by name, its column from 0."""
    line = next(line for line in out.splitlines() if line.startswith(f"{row}  "))
    return [part for part in line.split("  ") if part.strip()][column + 1].strip()


def test_8b_on_four_counts_reads_well(nowhere: Trnctl) -> None:
    ended = nowhere("plan", "llama3-8b", "--nodes", "4,8,16,32", target="aws")
    assert cell(ended.out, "layout", 0) == "tp32 dp4"
    assert cell(ended.out, "step", 0) == "171 s ±20%"
    assert cell(ended.out, "step", 3) == "21 s"
    assert (cell(ended.out, "ground", 0), cell(ended.out, "ground", 3)) == ("assumed", "published")
    assert "there is no cluster file" in ended.out
    assert "weak scaling, a bound" in ended.out
    assert "cheapest: 4 nodes; fastest within 5 % of its cost: 32 nodes" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 100
    assert ended.err == ""


def test_bert_on_six_counts_labels_each_rate(nowhere: Trnctl) -> None:
    ended = nowhere("plan", "bert-large", "-N", "1,2,4,8,16,32", target="aws")
    assert [cell(ended.out, "ground", n) for n in range(6)] == [
        "published", "interpolated", "interpolated", "interpolated", "published", "extrapolated",
    ]  # fmt: skip
    assert cell(ended.out, "rate", 4) == "24,518 seq/s"
    assert "57,408 seq/s" in ended.out
    assert "so an upper bound for 32" in " ".join(ended.out.split())
    assert "says under 8 h on 16 nodes: 5.2 h agrees" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("words", "code", "promised"),
    [
        (["bert-large", "--nodes", "64"], 2, "one of 1, 2, 4, 8, 16, 32"),
        (["bert-large", "--nodes", "1,3"], 2, "15,360 sequences a step"),
        (["llama3-70b", "--nodes", "2"], 3, "On 4 nodes, tp32 pp4 would fit"),
        (["llama3-70b", "--nodes", "4"], 2, "As tp32 pp4 it would fit on 4 nodes"),
        (["llama3-8b", "--nodes", "8,x"], 2, "--nodes 8,16,32"),
        (["llama3-8b", "--nodes", "0"], 2, "from 1 to 4096"),
        (["llama3-8b", "--scaling", "loose"], 2, "both, strong, weak"),
        (["llama3-8b", "--mfu", "24"], 2, "above 0 and up to 1"),
        (["llama3-8b", "--price", "-1"], 2, "US dollars an hour"),
        (["llama3-8b", "--tokens", "many"], 2, "100B or 1e11"),
        (["llama3-8b", "--instance-type", "trn9.huge"], 2, "known are"),
        (["llama3-8b", "--queue", "q"], 2, "name the file with -c"),
        (["llama3-9b"], 2, "did you mean llama3-8b"),
        (["bert-large", "--nodes", "3", "--svg", "m.svg"], 2, "no memory to draw"),
        (["bert-large", "--results", "none.json"], 2, "cannot be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_planned_is_refused(nowhere: Trnctl, words: list[str], code: int, promised: str) -> None:
    assert promised in nowhere("plan", *words, code=code, target="aws").talk


def test_the_json_has_a_plan_for_each_count_also_when_it_is_refused(nowhere: Trnctl) -> None:
    told = nowhere("plan", "llama3-70b", "-N", "2,8", "-o", "json", code=3, target="aws").json
    assert [(plan["nodes"], plan["status"]) for plan in told["plans"]] == [(2, "does-not-fit"), (8, "ok")]
    assert told["plans"][0]["memory"]["verdict"] == "no"
    assert told["plans"][1]["memory"]["usable_gib"] == 13.6
    assert told["findings"][0]["code"] == "memory-exceeded"
    assert told["plans"][1]["cost_usd"] > 0


def test_suggestions_are_listed_with_their_reasons(nowhere: Trnctl) -> None:
    ended = nowhere("plan", "llama3-70b", "-N", "8,16", "--suggest", target="aws")
    assert "legal layouts that fit, cheapest first" in ended.out
    assert "GiB free" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 100
    told = nowhere("plan", "llama3-8b", "-N", "2", "--instance-type", "p4d.24xlarge", "--suggest", "-o", "json",
                   target="aws").json  # fmt: skip
    assert told["suggestions"]
    assert {one["status"] for one in told["suggestions"]} == {"ok"}


def test_memory_is_drawn(nowhere: Trnctl) -> None:
    ended = nowhere("plan", "llama3-8b", "-N", "4,8", "--svg", "memory.svg", target="aws")
    assert "wrote memory.svg" in ended.talk
    root = ElementTree.fromstring((nowhere.folder / "memory.svg").read_text())  # noqa: S314  # we wrote it
    labels = [text.text for text in root.iter(f"{SVG}text")]
    assert {"4 nodes", "8 nodes", "parameters", "activations"} <= set(labels)
    parts = [title.text for title in root.iter(f"{SVG}title")]
    assert "parameters 0.47 GiB" in parts


def test_a_cluster_decides_the_type_the_limit_and_the_head_node(nowhere: Trnctl) -> None:
    here = nowhere.of(SIXTEEN)
    ended = here("plan", "llama3-8b", "-N", "8", target="aws")
    assert "queue compute1 of ultra1" in ended.out
    assert "with the head node" in " ".join(ended.out.split())
    refused = here("plan", "llama3-8b", "-N", "32", code=3, target="aws")
    assert "at most 16 nodes of trn1.32xlarge" in refused.talk


def test_hyperpod_can_be_planned_and_exported_but_not_submitted(nowhere: Trnctl, tmp_path: Path) -> None:
    cluster = tmp_path / "trnctl.yaml"
    text = SIXTEEN.read_text().replace("trn1.32xlarge", "p4de.24xlarge")
    cluster.write_text(text.replace("  region:", "  platform: hyperpod\n  region:", 1))
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "name: mine\ntitle: mine\nplan_only: it runs elsewhere\nmodel: {preset: llama3-70b}\nnodes: 8\nsteps: 10\n"
        "batch: {global: 1024, micro: 1, sequence: 8192}\n"
        "parallelism: {backend: smp, shard: 64, activation: {checkpoint: full}}\n"
    )
    here = nowhere.of(cluster)
    ended = here("plan", str(recipe), target="aws")
    assert cell(ended.out, "layout", 0) == "shard64"
    assert "✓ fits" in ended.out
    exported = here("parallel", "export", str(recipe), target="aws")
    assert json.loads(exported.out)["hybrid_shard_degree"] == 64
    assert here("submit", str(recipe), "--dry-run", code=3, target="aws").talk.count("hyperpod") == 1
    refused = nowhere("plan", str(recipe), "--instance-type", "p4de.24xlarge", code=2, target="aws")
    assert "backend: fsdp, shard: 64" in refused.talk


@pytest.mark.parametrize("name", ["llama3.1-405b", "qwen3-8b-torchtitan"])
def test_a_recipe_without_a_command_is_never_submitted(nowhere: Trnctl, name: str) -> None:
    ended = nowhere.of(SIXTEEN)("submit", name, "--dry-run", code=2, target="aws")
    assert f"{name} can be planned, but not submitted" in ended.talk
    assert ended.out == ""


def test_a_layout_that_rules_refuse_is_submitted_by_force_alone_and_run_json_says_so(
    nowhere: Trnctl, tmp_path: Path
) -> None:
    recipe = tmp_path / "mine.yaml"
    shipped = Path(__file__).parents[2] / "templates" / "workloads" / "bert-large.yaml"
    recipe.write_text(shipped.read_text().replace("environment:\n", 'environment:\n  NEURON_RT_NUM_CORES: "16"\n', 1))
    here = nowhere.of(EXAMPLES / "trn1-16-nodes.yaml")
    refused = here("submit", str(recipe), "-N", "2", "--dry-run", code=2, target="aws")
    assert "torchrun starts 32 workers" in refused.talk
    forced = here("submit", str(recipe), "-N", "2", "--dry-run", "--force", "-o", "json", target="aws").json
    assert json.loads(forced["files"]["run.json"])["forced"] == ["worker-count-differs"]
    sound = here("submit", "bert-large", "-N", "2", "--dry-run", "--force", "-o", "json", target="aws").json
    assert json.loads(sound["files"]["run.json"])["forced"] == []


def test_smp_goes_to_our_words_and_back(nowhere: Trnctl) -> None:
    (nowhere.folder / "smp_config.json").write_text('{"tensor_parallel_degree": 8, "tensor_parallel_seed": 5}')
    section = nowhere("parallel", "import", "smp_config.json", target="aws").out
    assert section == "parallelism:\n  backend: smp\n  tensor: 8\n  seed: 5\n"
    told = nowhere("parallel", "import", "smp_config.json", "-o", "json", target="aws").json
    assert told == {"parallelism": {"backend": "smp", "tensor": 8, "seed": 5}, "findings": []}
    (nowhere.folder / "words.yaml").write_text(section)
    back = nowhere("parallel", "export", "words.yaml", "--write", "out", target="aws")
    assert "wrote 1 document to out" in back.out
    document = json.loads((nowhere.folder / "out" / "smp_config.json").read_text())
    assert (document["tensor_parallel_degree"], document["random_seed"]) == (8, 5)


def test_an_export_prints_documents_and_commands(nowhere: Trnctl) -> None:
    out = nowhere("parallel", "export", "llama3-8b", "--backend", "nxdt", target="aws").out
    assert "# ---- llama3-8b_config.yaml\n" in out
    assert "CONF_FILE=llama3-8b_config COMPILE=1 ./train.sh" in out
    told = nowhere("parallel", "export", "bert-large", "--backend", "auto", "-N", "16", "-o", "json", target="aws").json
    assert told["steps"][0]["argv"][-1] == "--grad_accum_usteps=2"


def test_a_run_of_one_s_own_is_planned_from(nowhere: Trnctl) -> None:
    results = {
        "run": "bert-large-1129-a3f", "model": "bert-large-uncased", "sequence": 128, "unit": "seq/s", "nodes": 16,
        "instance_type": "trn1.32xlarge", "scaling": "strong", "average_throughput": 20_000.0, "emulated": None,
    }  # fmt: skip
    (nowhere.folder / "results.json").write_text(json.dumps(results))
    ended = nowhere("plan", "bert-large", "-N", "16", "--results", "results.json", target="aws")
    assert cell(ended.out, "rate", 0) == "20,000 seq/s"
    assert cell(ended.out, "ground", 0) == "yours"


def test_a_recipe_that_cannot_be_read_is_told_as_json_too(nowhere: Trnctl, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(recipe_text("fsdp-llama3-8b").replace("global: 512", "global: 500"))
    refused = nowhere("-o", "json", "plan", str(recipe), "-N", "4", code=2, target="aws")
    [found] = refused.json["findings"]
    assert (found["level"], found["path"], refused.json["plans"]) == ("error", "batch.global", [])
    assert found["line"]
    assert found["remedy"]

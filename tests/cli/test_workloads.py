"""`trnctl workloads`: the list, one recipe, and a new one, as a person and as a program reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.trnctl_runner import SIXTEEN, Trnctl


def test_the_list_is_one_line_a_recipe(nowhere: Trnctl) -> None:
    ended = nowhere("workloads", "list", target="aws")
    lines = ended.out.splitlines()
    names = {line.split()[0] for line in lines[1:]}
    assert {"bert-large", "bert-large-phase2-lamb-fp32", "llama3-70b-nxdt", "qwen3-8b-torchtitan"} <= names
    assert max(map(len, lines)) <= 100
    rows = nowhere("workloads", "list", "-o", "json", target="aws").json["workloads"]
    assert len(rows) == len(lines) - 1, "no row is folded into two lines"
    assert {row["name"] for row in rows if row["experimental"]} >= {"gpt-neox-20b", "qwen3-8b-torchtitan"}


def test_one_recipe_tells_what_runs_on_what_and_why(nowhere: Trnctl) -> None:
    here = nowhere.of(SIXTEEN)
    ended = here("workloads", "show", "llama3-8b", target="aws")
    told = " ".join(ended.out.split())
    for words in (
        "4 nodes of trn1.32xlarge", "at 9a5cbe173dde", "--tensor_parallel_size=32", "--grad_accum_usteps=256",
        "Neuron 2.28.0 to 2.31.1 with ubuntu2404", "ultra1 has Neuron 2.31.1 with ubuntu2404, which can run it",
        "at most 20 steps, about 57 min of training at the assumed rate", "tensor degree: 32",
        "the tutorial's prose: 8",
        "tp_zero1_llama3_8B_hf_pretrain.sh at the commit above",
    ):  # fmt: skip
        assert words in told
    assert "trnctl submit llama3-8b --dry-run" in ended.talk
    phase2 = here("workloads", "show", "bert-large-phase2", target="aws").out
    assert "a run of bert-large or bert-large-fp32 (--from RUN)" in " ".join(phase2.split())
    told = here("workloads", "show", "bert-large", "-o", "json", target="aws").json
    assert told["layout"]["global_batch"] == 16_384
    assert told["at_risk"]["on_signal"] is False


def test_a_new_recipe_can_be_shown_and_submitted_and_is_never_overwritten(nowhere: Trnctl) -> None:
    here = nowhere.of(SIXTEEN)
    made = here("workloads", "new", "mine", "--from", "llama3-8b", target="aws")
    assert "Wrote mine.yaml." in made.out
    text = (here.folder / "mine.yaml").read_text()
    assert "# key-value heads are repeated four times" in text
    shown = here("workloads", "show", "./mine.yaml", "-o", "json", target="aws").json
    assert shown["name"] == "mine"
    files = here("submit", "./mine.yaml", "-N", "2", "--dry-run", "-o", "json", target="aws").json["files"]
    assert "--grad_accum_usteps=512" in files["train.sbatch"]
    refused = here("workloads", "new", "mine", code=2, target="aws")
    assert "--output-file" in refused.talk
    assert (here.folder / "mine.yaml").read_text() == text
    answer = here("workloads", "new", "other", "--output-file", "b.yaml", "-o", "json", target="aws").json
    assert answer == {"name": "other", "file": "b.yaml", "from": "bert-large"}
    assert (here.folder / "b.yaml").is_file()
    assert "cannot name a recipe" in here("workloads", "new", "No Name", code=2, target="aws").talk
    assert not list(here.folder.glob("No Name*"))


def test_a_bad_recipe_is_told_whole_with_its_lines(nowhere: Trnctl, tmp_path: Path) -> None:
    here = nowhere.of(SIXTEEN)
    bad = tmp_path / "bad.yaml"
    here("workloads", "new", "bad", "--from", "llama3-8b", "--output-file", str(bad), target="aws")
    text = (
        bad.read_text().replace("every_steps: 20", "every_stepz: 20").replace("first_sdk: 2.28.0", "first_sdk: 2.8.0")
    )
    bad.write_text(text.replace("  micro: 1\n", "  micro: 3\n"))
    lines = {word: number for number, line in enumerate(bad.read_text().splitlines(), 1) for word in line.split()[:1]}
    for command in (["workloads", "show", str(bad)], ["submit", str(bad), "--dry-run"]):
        talk = here(*command, code=2, target="aws").talk
        for word, part in (("every_stepz:", "Did you mean `every_steps`?"), ("first_sdk:", "no Neuron SDK 2.8.0")):
            assert f"{bad}:{lines[word]}:" in talk
            assert part in talk
        assert "do not divide 1,024" in talk


PAIRS = {
    ("alinux2023", "2.31.1"): "PyTorch 2.9 for Neuron needs glibc 2.35",
    ("ubuntu2204", "2.31.1"): "is not for Ubuntu 22.04",
    ("ubuntu2004", "2.31.1"): "ubuntu2004",
    ("ubuntu2404", "2.33.0"): "sdk-unproven",
}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_pair_is_judged_from_the_file_and_again_at_submit(
    nowhere: Trnctl, tmp_path: Path, pair: tuple[str, str]
) -> None:
    nowhere("workloads", "new", "mine", "--output-file", str(tmp_path / "mine.yaml"), target="aws")
    cluster = tmp_path / "trnctl.yaml"
    text = SIXTEEN.read_text().replace("os: ubuntu2404", f"os: {pair[0]}").replace('"2.31.1"', f'"{pair[1]}"')
    cluster.write_text(text + "workloads: {mine: ./mine.yaml}\n")
    here, code = nowhere.of(cluster), 0 if pair[0] == "ubuntu2404" else 2
    for command in (["cluster", "validate"], ["submit", "mine", "--dry-run"]):
        ended = here(*command, code=code, target="aws")
        assert PAIRS[pair] in ended.out + ended.talk
        assert "ubuntu2404" in ended.out + ended.talk, "the pair that works is named"
    if not code:
        told = here("submit", "mine", "--dry-run", "-o", "json", target="aws").json
        assert [finding["code"] for finding in told["findings"]] == ["sdk-unproven"]

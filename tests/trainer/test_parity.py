"""The reference trainer computes on every layout what one process without it does: loss, gradient's norm, to 1e-5."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.trainer.cases import CASES, FILE, RECORDED, STEPS, Told

TOLERANCE = 1e-5
BY_NAME = {case["name"]: case for case in CASES}


@pytest.mark.parametrize("name", [case["name"] for case in CASES if case.get("parity")])
def test_a_layout_trains_as_one_process_does(told: Told, name: str) -> None:
    ours = told(name)["history"]
    plain = told(f"plain-{BY_NAME[name]['layout']['model']['name']}")["history"]
    resumed = 2 if "--resume" in BY_NAME[name]["wishes"] else 0
    assert [one["step"] for one in ours] == list(range(resumed + 1, STEPS + 1))
    for word in ("loss", "grad_norm"):
        assert [one[word] for one in ours] == pytest.approx(
            [one[word] for one in plain[resumed:]], abs=TOLERANCE, rel=0
        )


def test_what_is_compared_moves(told: Told) -> None:
    """A model that did not train, or two models that agree by chance, would make the parity worth nothing."""
    llama, bert = told("plain-llama")["history"], told("plain-bert")["history"]
    assert llama[-1]["loss"] < llama[0]["loss"] - 0.05
    assert abs(llama[0]["loss"] - bert[0]["loss"]) > 100 * TOLERANCE
    assert all(one["grad_norm"] > float(BY_NAME["one"]["wishes"][5]) for one in llama), "clipping had no work"


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_as_many_groups_are_resident_as_the_horizon_says(told: Told, horizon: int) -> None:
    case = told(f"offload-{horizon}")
    assert max(case["resident"]) == horizon  # by the copies that are there
    assert case["results"]["peak_resident_groups"] == horizon  # by the book


def test_offload_needs_no_more_groups_with_tensor_and_shard(told: Told) -> None:
    assert max(told("tensor-2-shard-2-offload")["resident"]) == 2


def test_a_checkpoint_half_written_is_not_used(told: Told, trainer_folder: Path) -> None:
    told("after-killed")
    left = sorted(path.name for path in (trainer_folder / "killed").iterdir())
    assert "step-00000002" in left
    assert told("after-killed")["results"]["resumed_from"] == "step-00000002"
    assert not (trainer_folder / "killed.json").exists(), "the rank did not die"


def test_a_signal_to_one_rank_saves_on_all_and_leaves(told: Told, trainer_folder: Path) -> None:
    results = told("signalled")["results"]
    assert (results["stopped_by_signal"], results["steps_done"]) == (True, 2)
    assert [path.name for path in (trainer_folder / "signalled").iterdir()][:1] != []
    assert told("after-signalled")["results"]["resumed_from"] == "step-00000002"


def test_a_signal_that_comes_too_late_for_a_step_lets_all_leave_after_the_next(
    told: Told, trainer_folder: Path
) -> None:
    results = told("signalled-late")["results"]
    assert (results["stopped_by_signal"], results["steps_done"]) == (True, 3)
    assert [path.name for path in (trainer_folder / "late").iterdir()] == ["step-00000003"]


def test_only_so_many_checkpoints_stay(told: Told, trainer_folder: Path) -> None:
    told("saved")
    kept = sorted(path.name for path in (trainer_folder / "saved").iterdir())
    assert kept == ["step-00000002", "step-00000004"]


def test_a_run_without_a_checkpoint_begins_at_its_beginning(told: Told) -> None:
    assert told("nothing-to-resume")["results"]["resumed_from"] is None
    assert told("nothing-to-resume")["history"][0]["step"] == 1


def test_collectives_that_are_not_here_are_replaced_aloud(told: Told) -> None:
    first, second = told("replicate-2-shard-3")["said"]
    assert "smddp is not here" in first
    assert "falling back to nccl" in first
    assert second == "collectives: nccl needs a GPU, and this is cpu; falling back to gloo"
    assert told("one")["said"] == []


@pytest.mark.parametrize("name", ["rows", "rows-wide"])
def test_a_file_gives_its_tokens_in_order_each_with_the_next_as_its_label(told: Told, name: str) -> None:
    """Sequences of 16 tokens need 17: the third begins at 34."""
    found = told(name)
    assert found["inputs"] == [FILE[34:50], FILE[51:67]]
    assert found["labels"] == [FILE[35:51], FILE[52:68]]


def test_masked_words_are_the_labels_and_as_many_in_each_sequence(told: Told) -> None:
    found = told("rows-masked")
    for inputs, labels, tokens in zip(found["inputs"], found["labels"], (FILE[32:48], FILE[48:64]), strict=True):
        masked = [at for at, label in enumerate(labels) if label != -100]
        assert len(masked) == 2
        assert [labels[at] for at in masked] == [tokens[at] for at in masked]
        assert all(inputs[at] == 95 for at in masked)  # the last word of so small a vocabulary stands for [MASK]
        assert [word for at, word in enumerate(inputs) if at not in masked] == [
            word for at, word in enumerate(tokens) if at not in masked
        ]


def test_training_goes_round_in_a_file_that_is_too_short(told: Told) -> None:
    """Four steps of 24 sequences, from a file that holds 23."""
    history = told("from-file")["history"]
    assert len(history) == STEPS
    assert history[-1]["loss"] < history[0]["loss"]


@pytest.mark.parametrize("name", ["scores-1", "scores-2"])
def test_weights_of_hugging_face_give_the_scores_of_hugging_face(told: Told, name: str) -> None:
    expected = json.loads((RECORDED / "scores.json").read_text())["scores"]
    for ours, theirs in zip(told(name)["scores"], expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


def weights(folder: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """The tensors of all files as the format describes them, read without the library that wrote them."""
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        data = file.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        for name, entry in json.loads(data[8 : 8 + length]).items():
            if name != "__metadata__":
                begin, end = (8 + length + at for at in entry["data_offsets"])
                found[name] = (entry["dtype"], entry["shape"], data[begin:end])
    return found


def test_weights_have_the_names_and_shapes_of_hugging_face(told: Told, trainer_folder: Path) -> None:
    told("saved")
    got = {name: shape for name, (_, shape, _) in weights(trainer_folder / "weights").items()}
    layer = {
        "input_layernorm": [32], "post_attention_layernorm": [32],
        "self_attn.q_proj": [32, 32], "self_attn.k_proj": [16, 32], "self_attn.v_proj": [16, 32],
        "self_attn.o_proj": [32, 32],
        "mlp.gate_proj": [64, 32], "mlp.up_proj": [64, 32], "mlp.down_proj": [32, 64],
    }  # fmt: skip
    wanted = {f"model.layers.{n}.{name}.weight": shape for n in range(4) for name, shape in layer.items()}
    wanted |= {"model.embed_tokens.weight": [96, 32], "model.norm.weight": [32], "lm_head.weight": [96, 32]}
    assert got == wanted
    index = json.loads((trainer_folder / "weights" / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(wanted)


def test_weights_come_in_as_they_went_out(told: Told, trainer_folder: Path) -> None:
    """Out of four ranks, into two; training there begins where training with the same weights in one process does."""
    assert told("given")["history"][0]["loss"] == pytest.approx(
        told("plain-given")["history"][0]["loss"], abs=TOLERANCE
    )
    assert weights(trainer_folder / "unchanged") == weights(trainer_folder / "weights")

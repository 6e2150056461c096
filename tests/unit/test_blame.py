"""blame.py as the first node runs it: which node's hardware has failed, by the logs and the kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trnctl.render import templates

BEGIN = "trnctl: stage train starts on trn1-dy-t32-{0}, node {0} of 6, master 10.0.0.1\n"
HANG = (
    "2026-Oct-01 09:12:01.000001 1:2 ERROR TDRV:x (FATAL-RT-UNDEFINED-STATE) missing collectives status on Neuron"
    " Device 3 NC 1, model 0 - suspected hang in collectives operation 4 out of 90, status=1200\n"
)
SRAM = "(FATAL-RT-UNDEFINED-STATE) encountered uncorrectable memory error on Neuron Device 3. status=1202\n"
KERNEL = "[298850.5] neuron3: NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR instance-id=i-0aa nd-id=3 action=TERMINATE_INSTANCE"


def blamed(folder: Path, logs: dict[int, str], *kernels: str) -> dict[str, str]:
    """What blame.py prints, from a run's folder with these logs and kernel lines."""
    (folder / "blame.py").write_text(templates.read("job/blame.py"))
    place = folder / "logs" / "train"
    place.mkdir(parents=True, exist_ok=True)
    for number, text in logs.items():
        (place / f"node-{number}.log").write_text(BEGIN.format(number) + text)
    done = subprocess.run(
        [sys.executable, "-I", str(folder / "blame.py"), "train"],
        input="\n".join(kernels), capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    return dict(line.split("\t") for line in done.stdout.splitlines())


def test_who_waits_for_a_collective_is_not_to_blame_but_the_node_whose_kernel_tells(tmp_path: Path) -> None:
    logs = {2: HANG, 5: "step 3\n"}
    assert blamed(tmp_path, logs) == {}
    assert blamed(tmp_path, logs, f"trn1-dy-t32-5: {KERNEL}") == {
        "trn1-dy-t32-5": "1201: an HBM error that cannot be repaired, the instance must be replaced"
    }


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (SRAM, "1202: an uncorrectable SRAM error"),
        ("nrt_execute failed: NRT_EXEC_HW_ERR_HBM_UE (1201)\n", "1201: an HBM error that cannot be repaired"),
        ("nrt_execute failed: NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE (1205)\n", "1205: an HBM error that reloading"),
        (
            "Uncorrectable HBM memory error is detected. Execution results may be invalid. Please reload the"
            " neuron driver or reboot your EC2 instance to prevent future impact from the hardware error.\n",
            "1205: an HBM error that reloading",
        ),
        ("TDRV:x encountered uncorrectable memory error count: 2 on Neuron Device 3\n", "1202: an uncorrectable SRAM"),
        ("[MLA 0][NC 0] DMA TX engine 0 is in an abort state\n", "1203: a DMA engine has failed"),
    ],
)
def test_a_node_whose_runtime_names_its_own_hardware_is_to_blame(tmp_path: Path, said: str, words: str) -> None:
    [(node, why)] = blamed(tmp_path, {0: HANG, 1: said}).items()
    assert node == "trn1-dy-t32-1"
    assert why.startswith(words)


@pytest.mark.parametrize(
    "said",
    [
        "nrt_execute failed: NRT_EXEC_SW_NQ_OVERFLOW (1204)\n",
        "Failed to allocate 1024.000MB on ND 3:NC 1\n",
        "mem_ecc_uncorrected: 0\n",
        "step 1202 of 28125, loss 1.201\n",
        "[MLA 0][NC 0] DMA TX engine 0 is idle\n",
        "uncorrectable error count: 0\n",
        "Neuron Device 3: uncorrectable memory errors: 0\n",
        "nrt: no uncorrectable memory errors on Neuron Device 3\n",
        "when no device is found, reload the neuron driver\n",
        "NRT: the driver is older than the runtime, please reload the neuron driver\n",
        "the tokenizer ended with error code 1203\n",
        "GET /shard/7: status 1202\n",
    ],
)
def test_what_is_no_hardware_error_blames_nobody(tmp_path: Path, said: str) -> None:
    assert blamed(tmp_path, {0: said}, "trn1-dy-t32-0: neuron: driver 2.25 loaded") == {}


def test_what_an_earlier_attempt_said_is_forgotten(tmp_path: Path) -> None:
    assert blamed(tmp_path, {0: SRAM + BEGIN.format(0) + "step 1\n"}) == {}

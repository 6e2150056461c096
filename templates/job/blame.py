"""Name the nodes of a stage whose Neuron hardware has failed, and say what must be done with each.

    blame.py STAGE < KERNEL        KERNEL: `NODE: ` and a line of that node's kernel log, each

Runs on the stage's first node, from the run's folder. Two witnesses are heard: each node's own log since the stage last
began, for what the Neuron runtime says, and the kernels. A node that only says that a collective hangs (1200) is never
blamed: something is wrong with another one. Prints a line for each node that is to blame, `NODE<tab>WHY`. Needs only
Python 3.6.
"""

import re
import sys
from pathlib import Path

MOST = 1 << 20  # bytes of the end of a log
START = re.compile(r"^trnctl: stage (?:\w+) starts on (\S+), node (\d+) of ", re.MULTILINE)
CODE = r"(?:NRT_\w+|status(?: code)?|return(?:ed)? code|error code)\W{0,4}"
# What is wrong, and what the runtime's log or the kernel's says of it, from Neuron's guide to troubleshooting. The
# first that fits counts: a repairable error of the HBM is told with words of the unrepairable one.
UE = "[Uu]ncorrectable HBM (?:memory )?error"
REPAIRABLE = [
    CODE + r"1205\b",
    "REPAIRABLE_HBM_UE",
    r"NEURON_HW_ERR=\w*REPAIRABLE",
    UE + ".{0,200}reload the neuron driver",
]
DMA = [CODE + r"1203\b", "HW_ERR_DMA_ABORT", r"NEURON_HW_ERR=\w*DMA_", r"DMA (?:TX|RX) engine \d+ is in an abort state"]
HBM = [CODE + r"1201\b", "HW_ERR_HBM_UE", r"NEURON_HW_ERR=\w*HBM_", UE]
SRAM = [CODE + r"1202\b", "HW_ERR_NC_UE", r"NEURON_HW_ERR=\w*SRAM_", "[Uu]ncorrectable (?:SRAM )?(?:memory )?error"]
OTHER = ["NEURON_HW_ERR=.{0,300}action=TERMINATE_INSTANCE"]
FAULTS = [
    ("1205: an HBM error that reloading the driver, or a reboot, repairs", re.compile("|".join(REPAIRABLE))),
    ("1203: a DMA engine has failed, the instance must be replaced", re.compile("|".join(DMA))),
    ("1201: an HBM error that cannot be repaired, the instance must be replaced", re.compile("|".join(HBM))),
    ("1202: an uncorrectable SRAM error, the instance must be replaced", re.compile("|".join(SRAM))),
    ("the kernel says that the instance must be replaced", re.compile("|".join(OTHER))),
]
# Who speaks: a training may print the same numbers and words, of something else.
WITNESS = re.compile(
    r"NEURON_HW_ERR|NRT|\bnrt|FATAL-RT|TDRV|NMGR|Neuron Device|\[(?:MLA|ND) \d|Execution results may be invalid"
)
# A count of nothing, which monitors print.
NONE = re.compile(
    r"\b(?:no|0|zero) uncorrect\w+[\w ]*|uncorrect\w+[\w ]*?errors?(?: counter| count| total)?[\s:=]+(?:0\b|none\b)",
    re.IGNORECASE,
)


def fault_in(text):
    """What is wrong, by these lines; '' when nothing is."""
    for full in text.splitlines():
        line = NONE.sub("", full) if WITNESS.search(full) else ""
        for words, pattern in FAULTS:
            if pattern.search(line):
                return words
    return ""


def end_of(path):
    """The end of a log as text."""
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - MOST))
        return file.read().decode("utf-8", "replace")


def of_logs(folder, stage):
    """{node: what is wrong} by each node's own log of this attempt."""
    found = {}
    for path in sorted((folder / "logs" / stage).glob("node-*.log")):
        text = end_of(path)
        starts = list(START.finditer(text))
        if not starts:
            continue
        why = fault_in(text[starts[-1].start() :])
        if why:
            found[starts[-1].group(1)] = why
    return found


def of_kernels(lines):
    """{node: what is wrong} by lines of the nodes' kernels."""
    found = {}
    for line in lines:
        node, colon, text = line.partition(": ")
        if colon and node not in found and "NEURON_HW_ERR" in text:
            why = fault_in(text)
            if why:
                found[node] = why
    return found


def main(folder, stage, lines):
    """The lines that are printed; what a kernel says of its node is surer than what a process says."""
    found = of_logs(folder, stage)
    found.update(of_kernels(lines))
    return [f"{node}\t{why}" for node, why in sorted(found.items())]


if __name__ == "__main__":
    for told in main(Path(__file__).resolve().parent, sys.argv[1], sys.stdin.read().splitlines()):
        print(told)

"""Codes of findings on nodes: what `trnctl health` and `submit --check` find."""

from __future__ import annotations

from trnctl.findings import Level

NODES: tuple[tuple[str, Level, str, str], ...] = (
    ("node-silent", "error", "The node gave no report in time: it hangs, or Slurm could not start a step on it.", "Drain it; trnctl why cluster looks at its logs."),
    ("node-devices", "error", "The node has fewer Neuron devices than its instance type, or neuron-ls does not answer.", "Drain it: ParallelCluster replaces the instance. `sudo modprobe neuron` first, if the driver is not loaded."),
    ("node-busy", "warning", "Processes hold NeuronCores of a node that Slurm had given to nobody else.", "End them: trnctl ssh NODE -- sudo kill PID. They are left of an earlier job."),
    ("node-memory-errors", "error", "The driver counts memory errors that cannot be corrected.", "Drain it: AWS's guide replaces the instance for HBM and SRAM errors; one of kind 1205 goes with a reload of the driver."),
    ("node-efa", "error", "The node has fewer EFA devices than its instance type: collectives between nodes would fail.", "Drain it: ParallelCluster replaces the instance. If all nodes lack them, write Efa: {Enabled: true}."),
    ("node-collective", "error", "An all-reduce among the node's own workers failed.", "Drain it; the message holds nccom-test's last words."),
    ("node-collective-hung", "error", "An all-reduce among the node's own workers did not end and was killed.", "Drain it: a training would hang there as well."),
    ("node-collective-slow", "error", "An all-reduce among the node's own workers is much slower than on the other nodes.", "Drain it: the slowest node gives the pace to all."),
    ("node-link", "error", "All-reduces with this node fail or are slow, whichever its partner is.", "Drain it: ParallelCluster replaces the instance, and with it its place in the network."),
    ("node-link-hung", "error", "All-reduces with this node do not end, whichever its partner is.", "Drain it: a training would hang there as well."),
    ("link-doubtful", "warning", "An all-reduce of two nodes is bad, and which of them is to blame cannot be told.", "Check them with others: trnctl health -N with more nodes."),
    ("links-all-bad", "warning", "No all-reduce between two nodes ended well: EFA is off, the security group does not allow traffic to itself, or nccom-test cannot start its workers (it needs MPI and ssh between nodes).", "trnctl cluster validate --online looks at EFA and security groups; a training on one node tells no more."),
    ("links-below-published", "warning", "The network between nodes is slower than the published figure, evenly.", "See that the queue has EFA and a placement group; the published sample may be out of date."),
    ("node-disk", "error", "A file system of the node is full, or is not mounted.", "Free it: trnctl ssh NODE -- df -h. Or drain the node."),
    ("node-disk-low", "warning", "A file system of the node is nearly full.", "Free it before checkpoints fill it."),
    ("node-clock", "error", "The node's clock is off: Slurm refuses credentials, and ages of locks and logs are wrong.", "trnctl ssh NODE -- sudo systemctl restart chrony; or drain it."),
    ("node-software", "error", "The node has another driver, runtime, collectives library or kernel than the others.", "Drain it: a new instance installs what the cluster file asks for."),
    ("nodes-alike", "error", "Most nodes fail: that points at the image, the software or the network, not at nodes.", "Nothing is drained: a replacement would fail in the same way. trnctl why cluster looks further."),
    ("node-not-had", "info", "The node could not be looked at.", "Wait for what it does, or leave it out."),
)  # fmt: skip

"""trnctl: from an AWS account to a trained model on a Trn UltraCluster, and back to zero cost.

The map of the package. Specs are values; rendering and planning are pure functions of values; a few
narrow doors lead outside; one file chooses what stands behind the doors; commands only translate
between a person and a verb.

    errors, findings   what can go wrong, each with the way out and an exit code
    specs/             what the user asks for: frozen dataclasses, read from YAML with line numbers
    render/            spec -> text (ParallelCluster YAML, sbatch scripts), pure
    plan/              arithmetic on values: layout, cost
    diagnose/          evidence in, findings out
    codes/             the table of all findings' codes: what each means, what to do
    preflight/         a cluster file (any ParallelCluster 3 file) judged, alone and against an account, pure
    ports/             the doors as Protocols, and the records that pass through them
    actions/           one verb per module: plan_x(...) is pure, x(...) carries it out
    adapters/          each file implements one door: nothing else imports the outside world
    sandbox/           the embedded world: AWS emulator, Slurm, sshd, emulated Neuron tools
    targets            the composition root: which adapter stands behind which door
    cli/               the commands, and the only place that draws

Directions: cli -> actions -> render, plan, diagnose, preflight -> specs; cli -> targets -> adapters -> ports;
actions -> ports. tests/test_architecture.py enforces them.
"""

__version__ = "0.1.0"

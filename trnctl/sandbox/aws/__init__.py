"""The sandbox's account: AWS's answers, given by moto in this process and by what moto lacks.

The unmodified pcluster, boto3 and Slurm's resume program see an AWS account; the machines behind it belong to
`trnctl.sandbox.machines`. moto is pinned, because the emulator extends its internals: every place where it does
so is in `gaps`, `hooks`, `lustre`, `models` and `removals`, with the reason beside it. What this shows is how
tools take AWS's answers; it does not show that AWS itself would answer so.

    environment   what pcluster and boto3 must be started with (imports nothing heavy)
    seeds         what stands in the account from the start, by fixed ids (imports nothing heavy)
    server        the Emulator: what the rest of the sandbox uses (imports moto when it is made)
    assembly      puts the parts together
    front         the HTTP door: control routes, faults, then moto
    faults        rules that make answers fail

    templates     what a CloudFormation template says about order and tags, pure
    stacks        the engine: stacks that progress over time, roll back, go
    updates       the engine's updates
    progress      events and their wording
    resources     one resource at a time, through moto's models
    hooks         where moto's CloudFormation is led into the engine

    boots         the head nodes, and what a wait condition waits for
    head_nodes    what a head node reads when it boots
    account       launches and terminates compute nodes for Slurm
    instances     EC2 instances from launch templates
    fleet         the part of clustermgtd that pcluster sees

    backends      the doors to moto's backends
    seeding       puts the seeds into them
    images        Amazon's own images: ParallelCluster's and Neuron's
    models        CloudFormation types that moto lacks
    plain         what they have in common
    image_builder the types of a build of an image, and what comes out of it
    removals      deletions through a stack that moto lacks
    capacity      EC2 API that moto lacks: capacity reservations, placement groups
    lustre        FSx for Lustre, completed
    gaps          what else moto does otherwise than AWS, mended
"""

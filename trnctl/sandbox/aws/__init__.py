"""The sandbox's account: AWS's answers, given by moto in this process and by what moto lacks.

The unmodified pcluster, boto3 and Slurm's resume program see an AWS account; the machines behind it belong to
`trnctl.sandbox.machines`. moto is pinned, because the emulator extends its internals: every place where it does
so is in `gaps`, `models` and `stacks`, each with the reason beside it. What this shows is how tools take AWS's
answers; it does not show that AWS itself would answer so.

    environment   what pcluster and boto3 must be started with (imports nothing heavy)
    seeds         what stands in the account from the start, by fixed ids (imports nothing heavy)
    seeding       puts the seeds into moto's backends
    images        the official ParallelCluster images
    backends      the doors to moto's backends, in one place
    models        CloudFormation resource types that moto lacks
    capacity      EC2 API that moto lacks: capacity reservations, placement groups
    gaps          what moto does otherwise than AWS, mended
    templates     what a CloudFormation template says about order and tags, pure
    stacks        stacks that progress over time: create, roll back, update, delete
    nodes         what a head node reads when it boots
    instances     launches and terminates compute nodes
    fleet         the part of clustermgtd that pcluster sees
    faults        rules that make answers fail
    front         the HTTP door: control routes, faults, then moto
    server        puts these together
"""

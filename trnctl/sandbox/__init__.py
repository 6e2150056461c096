"""The embedded world: real Slurm, real ssh, the unmodified pcluster; AWS and the Neuron tools are emulated.

It is an environment, not a code path: an endpoint URL, an ssh config, a PATH. Nothing outside this package and
the composition root knows of it.

One daemon, the world, serves the AWS emulator and owns the machines. Everything lives below one folder, the
sandbox's home: $TRNCTL_SANDBOX_HOME, else $XDG_STATE_HOME/trnctl/sandbox, else ~/.local/state/trnctl/sandbox.

    sandbox.json              written when the world is up: pid, endpoint, region, account, options
    processes.jsonl           every process that was started, with its start time, so that `down` can end it
    runtime                   a link to a short folder in /tmp: unix sockets, slurmd's spools, munge's key
    ssh_config                the client's side: a Host block for each head node's public and private address
    keys/                     throw-away host and client keys
    aws/                      what the emulated account reads
    log/                      world.log, account.log and what pcluster asked
    file_systems/fs-…/        the content of each emulated file system; outlives its cluster when it is retained
    clusters/NAME/            one for each cluster whose head node is up
        cluster.json          what the machines know: ssh port, queues, instance types by node
        bin/                  put in front of PATH on head and compute nodes: ssh, hostname, Neuron tools, torchrun, …
        emulation.json        what the emulated tools obey: steps, instance types and ids, faults
        etc/ state/ log/ run/ Slurm's own; etc/nodes/NODE.conf is there while the node is up
        etc/programs/         what Slurm and ssh run: resume, suspend, wait-for-nodes, reach
        local/                what the emulated tools keep on a node's own disk
        root/                 the mount prefix: root/fsx is a link to file_systems/fs-…, root/home/ubuntu is HOME;
                              root/var/log holds the head node's logs
"""

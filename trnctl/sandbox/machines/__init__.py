"""The computers of the sandbox: for each emulated cluster a real sshd and a real Slurm with emulated nodes.

names       ParallelCluster YAML -> partitions and node names; hostlists
slurm_conf  the text of slurm.conf, pure
addresses   where all of it listens
ssh         keys, and the configuration of sshd and ssh
programs    what Slurm runs, and stand-ins for programs of a real node (`tell` is what they tell the world with)
slurm       Slurm's own commands
nodes       compute nodes: power, death, recovery
cluster     one cluster from start to stop
local       all of them: the `Machines` door
"""

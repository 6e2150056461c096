"""Small programs of an emulated cluster: what Slurm runs, and what stands in for programs of a real node.

The texts are templates of `string.Template`; what is filled in are paths and names without blanks or quotes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template

from trnctl.sandbox.machines import tell

# ResumeProgram, SuspendProgram and ResumeFailProgram get one argument, a hostlist.
_TELL = """\
#!/bin/sh
# $what: tells the sandbox's world, which starts and ends nodes.
exec $python -I -S $tell $endpoint/_sandbox/$what cluster=$cluster "nodes=$$1" >>$folder/log/power.log 2>&1
"""

# PrologSlurmctld runs while a job is CONFIGURING. slurmctld (22.05) looks only every 30 seconds whether the nodes of
# such a job are up; when this program ends, it looks at once. So it ends when they are.
_WAIT_FOR_NODES = """\
#!/bin/sh
# Waits until the nodes of a job have powered up; slurmctld then starts the job at once.
export SLURM_CONF=$conf PATH=/usr/local/bin:/usr/bin:/bin
tries=0
while [ $$tries -lt 9000 ]; do
    sinfo -h -n "$$SLURM_JOB_NODELIST" -o %T | grep -q '[#~%]' || exit 0
    squeue -h -j "$$SLURM_JOB_ID" -o %T 2>/dev/null | grep -q CONFIGURING || exit 0
    tries=$$((tries + 1))
    sleep 0.2
done
"""

# ssh from a node to another: its way in is sshd itself, started for this one connection.
_REACH = """\
#!/bin/sh
conf=$folder/etc/nodes/$$1.conf
if [ ! -e "$$conf" ]; then
    echo "ssh: connect to host $$1 port 22: No route to host (the node is not powered up)" >&2
    exit 255
fi
exec $sshd -i -f $folder/etc/sshd_config -E $folder/log/sshd.log \\
    -o "SetEnv=$environment SLURMD_NODENAME=$$1 SLURM_CONF=$$conf"
"""

_SSH = """\
#!/bin/sh
exec $program -F $folder/etc/ssh_config "$$@"
"""

# All emulated nodes share this machine's host name; theirs is what Slurm calls them.
_HOSTNAME = """\
#!/bin/sh
name=$${SLURMD_NODENAME:-$head_name}
case "$$*" in
    "" | -s | --short | -f | --fqdn | --long) echo "$$name" ;;
    -i | --ip-address | -I | --all-ip-addresses) awk -v name="$$name" '$$2 == name { print $$1 }' $folder/etc/hosts ;;
    *) exec /bin/hostname "$$@" ;;
esac
"""

# The one service of a head node that a person may have to start again, and a systemctl that knows no other.
_SYSTEMCTL = """\
#!/bin/sh
# Emulated by the trnctl sandbox, for Slurm's controller alone.
case "$$1 $${2%.service}" in
    "start slurmctld" | "restart slurmctld")
        exec $python -I -S $tell $endpoint/_sandbox/restart-controller cluster=$cluster ;;
    "status slurmctld")
        if scontrol ping | grep -q 'is UP'; then
            echo "slurmctld.service: active (running); emulated by the trnctl sandbox"
            exit 0
        fi
        echo "slurmctld.service: inactive (dead); emulated by the trnctl sandbox"
        exit 3 ;;
esac
echo "systemctl: the sandbox has no such service: $$*" >&2
exit 1
"""

# A job may try to change the kernel of its node, which here is the user's own machine.
_SUDO = """\
#!/bin/sh
[ "$$1" != -n ] || shift
[ "$$1" != systemctl ] || exec "$$@"
echo "sudo: the sandbox changes nothing on this machine" >&2
exit 1
"""
_SYSCTL = """\
#!/bin/sh
for word; do
    case "$$word" in -w | --write | -p* | --load* | *=*)
        echo "sysctl: the sandbox changes nothing on this machine" >&2
        exit 1 ;;
    esac
done
exec $program "$$@"
"""

# The start-up files of the emulated HOME. /etc/profile resets PATH for login shells; sshd starts a session in the
# account's real home, or in / when that does not exist.
START_UP = """\
# Of the trnctl sandbox: start-up file of bash on head and compute nodes.
case ":$$PATH:" in *:$folder/bin:*) ;; *) PATH=$folder/bin:$$PATH ;; esac
if [ -z "$${TRNCTL_SANDBOX_SESSION-}" ]; then
    export TRNCTL_SANDBOX_SESSION=1
    cd
fi
PS1='$user@$$(hostname):\\w\\$$ '
"""


def write(path: Path, template: str, values: Mapping[str, object], *, mode: int = 0o755) -> None:
    """Write one program or file."""
    path.write_text(Template(template).substitute(values))
    path.chmod(mode)


def write_programs(folder: Path, *, cluster: str, endpoint: str, sshd: str, environment: Mapping[str, str]) -> None:
    """Everything below etc/programs of a cluster, which slurmctld and ssh run, and its systemctl."""
    programs = folder / "etc" / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    values = {
        "folder": folder,
        "cluster": cluster,
        "endpoint": endpoint,
        "python": sys.executable,
        "tell": tell.__file__,
        "conf": folder / "etc" / "slurm.conf",
        "sshd": sshd,
        "environment": " ".join(f"{name}={value}" for name, value in environment.items()),
    }
    (folder / "bin").mkdir(exist_ok=True)
    write(folder / "bin" / "systemctl", _SYSTEMCTL, values)
    for what in ("resume", "suspend"):
        write(programs / what, _TELL, {**values, "what": what})
    write(programs / "wait-for-nodes", _WAIT_FOR_NODES, values)
    write(programs / "reach", _REACH, values)


def write_stand_ins(folder: Path, *, head_name: str, ssh_programs: Mapping[str, str]) -> None:
    """What stands first in PATH on head and nodes: hostname; ssh, scp, sftp that know the nodes by name; sysctl without
    rights, and sudo with none but to run the sandbox's systemctl. `ssh_programs` maps ssh's names to programs."""
    (folder / "bin").mkdir(exist_ok=True)
    write(folder / "bin" / "hostname", _HOSTNAME, {"folder": folder, "head_name": head_name})
    write(folder / "bin" / "sysctl", _SYSCTL, {"program": "/sbin/sysctl"})
    write(folder / "bin" / "sudo", _SUDO, {})
    for name, program in ssh_programs.items():
        write(folder / "bin" / name, _SSH, {"folder": folder, "program": program})

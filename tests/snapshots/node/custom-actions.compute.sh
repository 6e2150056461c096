#!/usr/bin/env bash
# Gives a compute node of the cluster custom1 the software of Neuron SDK 2.31.1. Written by trnctl.
#
# ParallelCluster runs it as root when the node is configured, and on the head node at every update. It can be run again
# at any time. Each step is named and timed in /var/log/trnctl-node.log; a failure has an exit code of its own.
# shellcheck disable=SC2034  # every setting stands in every script; not every kind of node uses all
# shellcheck disable=SC2016  # a remedy may quote a command

readonly ROLE=compute
readonly LOG=/var/log/trnctl-node.log
readonly BUDGET_S=1500 # of the 2100 s that ParallelCluster gives a node; the rest is its own
readonly LOCK_S=600

readonly SDK=2.31.1
readonly CODENAME=noble
readonly APT_REPOSITORY=https://apt.repos.neuron.amazonaws.com
readonly APT_KEY=https://apt.repos.neuron.amazonaws.com/GPG-PUB-KEY-AMAZON-AWS-NEURON.PUB
readonly DRIVER=2.29.0.0
readonly RUNTIME=2.33.10.0
readonly COLLECTIVES=2.33.10.0
readonly TOOLS=2.31.15.0

readonly PIP_REPOSITORY=https://pip.repos.neuron.amazonaws.com
readonly PIP_PACKAGES=(neuronx-cc==2.26.6360.0 torch-neuronx==2.9.0.2.15.32035 neuronx_distributed==0.19.28492)
readonly PYTHONS=(3.11 3.12 3.13)
# On shared storage; empty when this SDK has no PyTorch for these nodes.
readonly ENVIRONMENT=/fsx/trnctl/environments/neuron-2.31.1-371d2301
readonly ENVIRONMENT_LINK=/opt/aws_neuronx_venv_pytorch_2_9

declare -rA DEVICES=([trn1.2xlarge]=1 [trn1.32xlarge]=16 [trn1n.32xlarge]=16 [trn2.3xlarge]=1 [trn2.48xlarge]=16 [trn2u.48xlarge]=16 )
declare -rA ADAPTERS=([trn1.32xlarge]=8 [trn1n.32xlarge]=16 [trn2.3xlarge]=1 [trn2.48xlarge]=16 [trn2u.48xlarge]=16 )
readonly STEPS=(start upgrades dpkg repository headers driver packages hosts limits efa environment)
declare -rA CODES=([start]=20 [lock]=21 [time]=22 [upgrades]=23 [dpkg]=24 [repository]=25 [headers]=26 [driver]=27 [packages]=28 [hosts]=29 [limits]=30 [efa]=31 [environment]=32 [hooks]=33 [fleet]=34 )
declare -rA FAILURES=(
    [start]='the node scripts cannot run here'
    [lock]='another process kept the lock of apt or dpkg'
    [time]='the time for a node'"'"'s set-up ran out'
    [upgrades]='unattended upgrades could not be kept from the kernel'
    [dpkg]='an interrupted installation could not be finished'
    [repository]='Neuron'"'"'s package repository could not be used'
    [headers]='there are no headers of the running kernel'
    [driver]='the Neuron driver is not there or does not load'
    [packages]='Neuron'"'"'s runtime, collectives or tools could not be installed'
    [hosts]='/etc/hosts could not be corrected'
    [limits]='the limit of open files could not be raised'
    [efa]='not all Elastic Fabric Adapters are there'
    [environment]='the Python environment with compiler and PyTorch is not there'
    [hooks]='the head node'"'"'s timer could not be installed'
    [fleet]='what counts the nodes'"'"' time could not be put on the head node'
)
declare -rA REMEDIES=(
    [start]='Let ParallelCluster run them, as root, on the Ubuntu system that the cluster file names.'
    [lock]='Build the software into an image (trnctl image build), or take away what else installs packages at boot.'
    [time]='See /var/log/trnctl-node.log for what took so long; a slow mirror or a missing NAT gateway does. An image with the software (trnctl image build) needs no time.'
    [upgrades]='See /var/log/trnctl-node.log; check that the root volume is not full.'
    [dpkg]='See /var/log/trnctl-node.log for the package that fails; leave out what installs it, or use a clean image.'
    [repository]='Check the way to the internet (NAT gateway) and that the repository serves this Ubuntu release.'
    [headers]='Use ParallelCluster'"'"'s own image, or one whose kernel is in Ubuntu'"'"'s repository (trnctl image build).'
    [driver]='See /var/log/trnctl-node.log and /var/lib/dkms/aws-neuronx/*/build/make.log; another kernel or SDK may be needed.'
    [packages]='See /var/log/trnctl-node.log; choose a neuron_sdk whose packages the repository has.'
    [hosts]='See /var/log/trnctl-node.log; check that the root volume is not full.'
    [limits]='See /var/log/trnctl-node.log; check that the root volume is not full.'
    [efa]='Replace the node; if all nodes fail, check `efa` of the compute resource and the image'"'"'s EFA software.'
    [environment]='See /var/log/trnctl-node.log; check the way to the pip repositories and the room on the shared file system.'
    [hooks]='See /var/log/trnctl-node.log and `systemctl status trnctl.timer`.'
    [fleet]='See /var/log/trnctl-node.log; check that the root volume is not full.'
)

# ------------------------------------------------------------------------------------------------- steps
# What every step relies on. There is no `set -e` out here, which would end the node without a word: each step runs in a
# subshell that has it, and its end is looked at.

readonly REFUSAL=/run/trnctl-node.refusal # the kind of failure that a step named itself

# say TEXT…: one line for the log and for ParallelCluster's own log.
say() {
    printf '%s trnctl-node: %s\n' "$(date -u +%FT%TZ)" "$*" | tee -a "$LOG"
}

# refuse KIND WHAT [REMEDY]: end the step, and the script, with the exit code of KIND.
refuse() {
    printf '%s' "$1" >"$REFUSAL"
    say "failed: ${FAILURES[$1]}: $2"
    say "remedy: ${3:-${REMEDIES[$1]}}"
    exit 1
}

# within SECONDS COMMAND…: run it under a limit, and under what is left of the budget; what it prints goes to the log.
within() {
    local limit=$1 room=$((BUDGET_S - SECONDS))
    shift
    if ((room <= 0)); then
        refuse time "nothing is left of $BUDGET_S s for: $*"
    fi
    # The lock of this script (9) is not for children, which may outlive it.
    timeout --kill-after=10 "$((limit < room ? limit : room))" "$@" </dev/null >>"$LOG" 2>&1 9>&-
}

# said_since BYTES: what the log holds beyond that size.
said_since() {
    tail -c "+$(($1 + 1))" "$LOG"
}

# step NAME: run step_NAME; end the script when it fails.
step() {
    local name=$1 kind=$1 began=$SECONDS size status
    rm -f "$REFUSAL"
    say "step $name"
    size=$(stat -c %s "$LOG")
    (
        set -eo pipefail
        "step_$name"
    )
    status=$?
    if ((status == 0)); then
        say "step $name: done in $((SECONDS - began)) s"
        return
    fi
    if [[ -s $REFUSAL ]]; then
        kind=$(<"$REFUSAL")
    else
        if ((status == 124 || status == 137)); then
            kind="time"
        fi
        said_since "$size" | tail -n 20
        say "failed: ${FAILURES[$kind]} (status $status)"
        say "remedy: ${REMEDIES[$kind]}"
    fi
    say "step $name: failed after $((SECONDS - began)) s; exit code ${CODES[$kind]}"
    exit "${CODES[$kind]}"
}

# put FILE MODE: write standard input as the whole file, in one move, unless it stands there already.
put() {
    local new
    rm -f "$1".?????? # what an interrupted run has left
    new=$(mktemp "$1.XXXXXX")
    cat >"$new"
    chmod "$2" "$new"
    if cmp -s "$new" "$1"; then
        rm -f "$new"
    else
        mv -f "$new" "$1"
    fi
}

# The instance's own type: on Nitro instances the firmware tells it; the metadata service does elsewhere.
instance_type() {
    local type token metadata=http://169.254.169.254/latest
    type=$(cat /sys/devices/virtual/dmi/id/product_name 2>/dev/null || true)
    if [[ $type != ?*.?* ]]; then
        token=$(curl -sf --max-time 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' $metadata/api/token || true)
        type=$(curl -sf --max-time 5 -H "X-aws-ec2-metadata-token: $token" $metadata/meta-data/instance-type || true)
    fi
    printf '%s' "$type"
}

# How many Neuron devices this node must have; nothing on a node without.
devices_wanted() {
    printf '%s' "${DEVICES[${TYPE:-unknown}]:-}"
}

step_start() {
    local ID="" VERSION_CODENAME=""
    # shellcheck source=/dev/null
    . /etc/os-release
    if [[ $ID != ubuntu || $VERSION_CODENAME != "$CODENAME" ]]; then
        refuse start "the system is ${ID:-unknown} ${VERSION_CODENAME:-}, and the cluster file says ubuntu $CODENAME"
    fi
    if [[ -z $TYPE && $ROLE == compute ]]; then
        refuse start "neither the firmware nor the metadata service tells the type of this instance"
    fi
}

# ----------------------------------------------------------------------------------------------- packages

# Messages are compared below; nothing may ask; and needrestart must not restart Slurm under a job.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
readonly LOCKED='Could not get lock|Unable to acquire the dpkg frontend lock|lock was locked by another process|Unable to lock'
readonly SOURCE_LIST=/etc/apt/sources.list.d/trnctl-neuron.list
readonly SOURCE_KEY=/etc/apt/keyrings/trnctl-neuron.asc # apt takes a key in ASCII armour under this ending

# patiently COMMAND…: run it, and again for as long as another process holds the locks of apt or dpkg. apt waits by
# itself for one of its locks only (DPkg::Lock::Timeout: not for that of the lists), and dpkg for none.
patiently() {
    local began=$SECONDS size status holder
    while true; do
        size=$(stat -c %s "$LOG")
        within 900 "$@" && return 0
        status=$?
        if ! said_since "$size" | grep -E "$LOCKED" >/dev/null; then
            return "$status"
        fi
        if ((SECONDS - began >= LOCK_S)); then
            holder=$(said_since "$size" | grep -Eo '(held by process|process with pid) .*' | tail -n 1 || true)
            refuse lock "after $((SECONDS - began)) s it is still there (${holder:-its holder is not known})"
        fi
        sleep 2
    done
}

# apt ARGUMENTS…: apt-get, without questions and with patience.
apt() {
    patiently apt-get -q -y -o DPkg::Lock::Timeout="$((LOCK_S < 30 ? LOCK_S : 30))" -o Acquire::Retries=3 \
        -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"
}

# installed PACKAGE VERSION: whether it is there, whole, in this version (with whatever follows a hyphen).
installed() {
    local found
    found=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null) || return 1
    [[ $found == "installed $2" || $found == "installed $2-"* ]]
}

# whole_version PACKAGE VERSION: the version as the repository has it: 2.33.10.0 is there as 2.33.10.0-8a56eb0d9.
whole_version() {
    apt-cache madison "$1" | awk -F ' *[|] *' -v wanted="$2" '{ plain = $2; sub(/-.*/, "", plain) }
        plain == wanted && !found++ { print $2 }'
}

# pinned KIND PACKAGE VERSION…: install exactly these, and keep them from being changed.
pinned() {
    local kind=$1 version wanted=() names=()
    shift
    while (($# > 1)); do
        names+=("$1")
        if ! installed "$1" "$2"; then
            version=$(whole_version "$1" "$2")
            if [[ -z $version ]]; then
                refuse "$kind" "the repository has no $1 $2; it has: $(apt-cache madison "$1" |
                    awk -F ' *[|] *' '{ printf "%s%s", comma, $2; comma = ", " }' | cut -c 1-300)"
            fi
            wanted+=("$1=$version")
        fi
        shift 2
    done
    if ((${#wanted[@]})); then
        apt install --no-install-recommends --allow-downgrades --allow-change-held-packages "${wanted[@]}"
    fi
    patiently apt-mark hold "${names[@]}"
}

# Upgrades at boot take the locks, and a new kernel would leave the driver and Lustre behind. A run of them that is
# under way is not killed, which would break dpkg: it is waited for. Security fixes of everything but the kernel go on:
# on the head node the timers start again at the end; a compute node lives for its jobs only.
step_upgrades() {
    within 60 systemctl stop apt-daily.timer apt-daily-upgrade.timer || say "there are no timers of apt to stop"
    within 60 systemctl stop --no-block unattended-upgrades.service || say "there are no unattended upgrades to stop"
    put /etc/apt/apt.conf.d/52trnctl 644 <<'END'
// Written by trnctl: the driver and the file system's client fit the running kernel only.
Unattended-Upgrade::Package-Blacklist { "linux-"; "aws-neuronx-"; "lustre-client-"; };
END
    hold_kernel
}

hold_kernel() {
    local packages
    mapfile -t packages < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'linux-*' 2>/dev/null |
        awk '$1 == "installed" && $2 ~ /^linux-(aws|image|headers|modules)/ { print $2 }')
    if ((${#packages[@]})); then
        patiently apt-mark hold "${packages[@]}"
    fi
}

resume_upgrades() {
    if [[ $ROLE == head ]]; then
        systemctl start apt-daily.timer apt-daily-upgrade.timer >>"$LOG" 2>&1 9>&- || true # where there are none
    fi
}

step_dpkg() {
    patiently dpkg --force-confdef --force-confold --configure -a
    apt check || apt --fix-broken install
}

everything_is_there() {
    installed aws-neuronx-runtime-lib "$RUNTIME" && installed aws-neuronx-collectives "$COLLECTIVES" &&
        installed aws-neuronx-tools "$TOOLS" && { [[ -z $(devices_wanted) ]] || installed aws-neuronx-dkms "$DRIVER"; }
}

step_repository() {
    local try size
    if everything_is_there; then
        say "the packages of Neuron SDK $SDK are there already"
        return 0
    fi
    install -d -m 755 /etc/apt/keyrings
    within 180 curl -fsSL --retry 5 --retry-connrefused --max-time 150 -o "$SOURCE_KEY.new" "$APT_KEY" ||
        refuse repository "its key could not be fetched from $APT_KEY"
    chmod 644 "$SOURCE_KEY.new"
    mv -f "$SOURCE_KEY.new" "$SOURCE_KEY"
    put "$SOURCE_LIST" 644 <<<"deb [signed-by=$SOURCE_KEY] $APT_REPOSITORY $CODENAME main"
    for try in 1 2 3; do
        size=$(stat -c %s "$LOG")
        if apt update && [[ -n $(apt-cache madison aws-neuronx-tools) ]]; then
            return 0
        fi
        if said_since "$size" | grep -F "$APT_REPOSITORY $CODENAME" | grep 'does not have a Release file' >/dev/null; then
            rm -f "$SOURCE_LIST" # it would fail every later use of apt as well
            refuse repository "$APT_REPOSITORY has nothing for Ubuntu's $CODENAME"
        fi
        if [[ -n $(apt-cache madison aws-neuronx-tools) ]]; then
            say "a repository that is not Neuron's could not be read; going on"
            return 0
        fi
        say "the lists could not be read (try $try of 3)"
        sleep 3
    done
    refuse repository "$(said_since "$size" | grep -E '^(E|W|Err)' | head -n 3 | tr '\n' ' ')"
}

step_headers() {
    local kernel folder
    kernel=$(uname -r)
    folder=/lib/modules/$kernel/build
    if [[ -z $(devices_wanted) || -e $folder/Makefile ]]; then
        return 0
    fi
    if [[ -z $(apt-cache madison "linux-headers-$kernel") ]]; then
        refuse headers "kernel $kernel runs, $folder is not there, and no repository has linux-headers-$kernel"
    fi
    apt install --no-install-recommends "linux-headers-$kernel"
    [[ -e $folder/Makefile ]] || refuse headers "linux-headers-$kernel is installed, but brings no $folder"
    hold_kernel
}

# The package builds the module for the running kernel, but does not fail when that fails.
step_driver() {
    local kernel wanted loaded found=()
    kernel=$(uname -r)
    wanted=$(devices_wanted)
    if [[ -z $wanted ]]; then
        say "a node without Neuron devices (${TYPE:-of unknown type}) needs no driver"
        return 0
    fi
    pinned driver aws-neuronx-dkms "$DRIVER"
    if ! modinfo -k "$kernel" neuron >>"$LOG" 2>&1; then
        within 600 dkms autoinstall -k "$kernel" || true # judged by the next line
        modinfo -k "$kernel" neuron >>"$LOG" 2>&1 || refuse driver "no module was built for kernel $kernel"
    fi
    loaded=$(cat /sys/module/neuron/version 2>/dev/null || true)
    if [[ -n $loaded && $loaded != "$(modinfo -k "$kernel" -F version neuron)" ]]; then
        within 60 modprobe -r neuron # the image's own; no job runs yet
    fi
    within 120 modprobe neuron
    found=(/dev/neuron[0-9]*)
    [[ -e ${found[0]} ]] || found=()
    if ((${#found[@]} < wanted)); then
        refuse driver "of $wanted Neuron devices ${#found[@]} are there" \
            "Replace the node: a device is broken. If all nodes fail, see dmesg on one of them."
    fi
}

step_packages() {
    pinned packages aws-neuronx-runtime-lib "$RUNTIME" aws-neuronx-collectives "$COLLECTIVES" \
        aws-neuronx-tools "$TOOLS"
    put /etc/profile.d/trnctl-neuron.sh 644 <<'END'
export PATH=$PATH:/opt/aws/neuron/bin
END
}

# ------------------------------------------------------------------------------------------------- system

# The address by which other nodes reach this one: that of the interface with the first default route.
primary_address() {
    local route device address
    route=$(ip -4 route show default | awk '{ metric = 0; for (i = 1; i < NF; i++) if ($i == "metric") metric = $(i + 1) + 0
        if (NR == 1 || metric < least) { least = metric; first = $0 } } END { print first }')
    address=$(awk '{ for (i = 1; i < NF; i++) if ($i == "src") print $(i + 1) }' <<<"$route")
    if [[ -z $address ]]; then
        device=$(awk '{ for (i = 1; i < NF; i++) if ($i == "dev") print $(i + 1) }' <<<"$route")
        address=$(ip -4 -o addr show dev "${device:-none}" scope global 2>>"$LOG" |
            awk 'NR == 1 { sub(/\/.*/, "", $4); print $4 }' || true)
    fi
    printf '%s' "$address"
}

# A node with many interfaces may find its own name at a wrong address (or at 127.0.1.1, or at IPv6) in /etc/hosts: its
# peers then wait for it in vain. The name moves to the right address; all else stays, to the letter.
step_hosts() {
    local address name
    address=$(primary_address)
    name=$(uname -n)
    if [[ -z $address || ! -e /etc/hosts ]]; then
        say "there is no default route or no /etc/hosts: nothing to correct"
        return 0
    fi
    awk -v address="$address" -v name="${name%%.*}" '
        function own(word) { return word == name || index(word, name ".") == 1 }
        /^[ \t]*(#|$)/ { print; next }
        {
            kept = $1; mine = ""; comment = ""
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^#/) { for (; i <= NF; i++) comment = comment " " $i; break }
                if (own($i)) mine = mine " " $i; else kept = kept " " $i
            }
            if (mine == "") { print; next }
            if ($1 == address) { print; right = 1; next }
            moved = moved mine
            if (kept != $1) print kept comment
        }
        END {
            count = split(moved, words, " ")
            for (i = 1; i <= count; i++) if (!seen[words[i]]++) line = line " " words[i]
            if (line != "" && !right) print address line
        }' /etc/hosts | put /etc/hosts 644
}

# The runtime and EFA open a file for each connection. limits.d is read in alphabetical order, and the last word wins;
# EFA's installer leaves a lower one there.
step_limits() {
    put /etc/security/limits.d/99-trnctl.conf 644 <<'END'
# Written by trnctl.
* soft nofile 65536
* hard nofile 65536
root soft nofile 65536
root hard nofile 65536
END
    if [[ -e /etc/security/limits.d/01_efa.conf ]]; then
        awk '$1 !~ /^#/ && $3 == "nofile" && $4 ~ /^[0-9]+$/ && $4 < 65536 { sub(/[0-9]+[ \t]*$/, "65536") } { print }' \
            /etc/security/limits.d/01_efa.conf | put /etc/security/limits.d/01_efa.conf 644
    fi
}

# A node with one adapter missing joins no collective, and the job hangs instead of failing.
step_efa() {
    local tool=/opt/amazon/efa/bin/fi_info wanted=${ADAPTERS[${TYPE:-unknown}]:-} found
    if [[ -z $wanted ]]; then
        say "no EFA is expected on $TYPE"
        return 0
    fi
    [[ -x $tool ]] || refuse efa "EFA's software is not in the image: there is no $tool" \
        "Use ParallelCluster's own image, or build one from it (trnctl image build)."
    found=$({ timeout 60 "$tool" -p efa -t FI_EP_RDM 2>>"$LOG" 9>&- || true; } | # it fails when it finds none
        awk '$1 == "domain:" { print $2 }' | sort -u | wc -l)
    if ((found < wanted)); then
        refuse efa "of $wanted adapters on $TYPE fi_info finds $found"
    fi
}

# What later features put a file into: hooks that Slurm runs on the nodes around each job (ParallelCluster's folders,
# which compute nodes mount), and one timer on the head node.
step_hooks() {
    install -d -m 755 /opt/slurm/etc/scripts/prolog.d /opt/slurm/etc/scripts/epilog.d /opt/trnctl/bin /opt/trnctl/timer.d
    put /opt/slurm/etc/scripts/epilog.d/50-trnctl-hardware 755 <<'END'
#!/usr/bin/env bash
# Slurm runs it as root on each node of a job that ends: a node whose kernel tells of broken Neuron hardware is drained,
# so that no job gets it. ParallelCluster then replaces its instance. Whatever fails here must not fail the node.
export PATH=/opt/slurm/bin:/usr/sbin:/usr/bin:/sbin:/bin
said=$(timeout 5 dmesg 2>/dev/null | grep -o 'NEURON_HW_ERR=[A-Z_]*' | tail -n 1)
if [[ -n $said && -n ${SLURMD_NODENAME:-} ]]; then
    # The job's own script may have drained it already, with a reason that tells more.
    state=$(timeout 20 scontrol -o show node "$SLURMD_NODENAME" | grep -o ' State=[^ ]*')
    [[ $state == *DRAIN* ]] || timeout 20 scontrol update "nodename=$SLURMD_NODENAME" state=drain "reason=trnctl: $said"
fi
exit 0
END
    put /opt/trnctl/bin/timer 755 <<'END'
#!/usr/bin/env bash
# Runs every program in /opt/trnctl/timer.d once; one that fails or hangs does not keep the others from running.
for program in /opt/trnctl/timer.d/*; do
    if [[ -f $program && -x $program ]]; then
        timeout --kill-after=5 50 "$program" </dev/null || echo "trnctl: $program ended with status $?" >&2
    fi
done
END
    put /opt/trnctl/timer.d/notify 755 <<'END'
#!/usr/bin/env bash
# Tells that runs have ended whose own jobs could not: they were cancelled, ran into a limit, or lost their nodes. Each is
# told by its owner's rights, since what it runs is its owner's.
root=${0%/opt/trnctl/timer.d/*}
for asked in "$root"/*/trnctl/runs/*/notify.json "$root"/*/*/trnctl/runs/*/notify.json; do
    folder=${asked%/*}
    if [[ -L $folder || ! -f $asked || -e $folder/notified.json ]]; then continue; fi
    (
        # Others may change what a path leads to between two looks at it, and so run their program as another user. From
        # within the folder all names are plain ones, and who owns it is who wrote them.
        cd -P "$folder" || exit 0
        owner=$(stat -c %U .)
        for name in notify.json notify.py; do
            if [[ -L $name || ! -f $name || $(stat -c %U "$name") != "$owner" ]]; then exit 0; fi
        done
        as_owner=()
        if [[ $owner != "$(id -un)" ]]; then as_owner=(runuser -u "$owner" --); fi
        timeout 45 "${as_owner[@]}" python3 -E ./notify.py timer
    ) || true
done
END
    put /etc/systemd/system/trnctl.service 644 <<'END'
[Unit]
Description=What trnctl does on the head node once a minute (/opt/trnctl/timer.d)

[Service]
Type=oneshot
ExecStart=/opt/trnctl/bin/timer
TimeoutStartSec=600
END
    put /etc/systemd/system/trnctl.timer 644 <<'END'
[Unit]
Description=Runs trnctl.service once a minute

[Timer]
OnActiveSec=60
OnUnitInactiveSec=60
AccuracySec=5

[Install]
WantedBy=timers.target
END
    within 60 systemctl daemon-reload
    within 60 systemctl enable --now trnctl.timer
}

# -------------------------------------------------------------------------------------------- environment
# Compiler and PyTorch live in one virtual environment on shared storage, made once by the head node. Every node finds it
# at the place where AWS's own images have theirs, which recipes name.

# The versions are exact. PyPI has packages of the same names, which are empty: none has such a version.
make_environment() {
    local size status
    rm -rf "$ENVIRONMENT" # what an interrupted run has left; only this script writes below this folder
    share "$(dirname "${ENVIRONMENT%/*}")"
    install -d -m 755 "${ENVIRONMENT%/*}"
    within 120 python3 -m venv "$ENVIRONMENT"
    size=$(stat -c %s "$LOG")
    status=0
    within 1300 "$ENVIRONMENT/bin/python" -m pip install --no-input --disable-pip-version-check --retries 5 --timeout 30 \
        --extra-index-url "$PIP_REPOSITORY" "${PIP_PACKAGES[@]}" || status=$?
    if ((status == 0)); then
        return 0
    fi
    if said_since "$size" | grep 'No space left on device' >/dev/null; then
        refuse environment "no space was left for it in ${ENVIRONMENT%/*} or in ${TMPDIR:-/tmp}" \
            "Use a larger shared file system, or more head_node.root_gib."
    fi
    if said_since "$size" | grep 'No matching distribution found' >/dev/null; then
        refuse environment "$(said_since "$size" | grep 'No matching distribution found' | tail -n 1)" \
            "Choose a neuron_sdk whose packages the pip repository has for this Python."
    fi
    return "$status"
}

# share FOLDER: make the folder below which all users of the cluster keep runs, caches and data, as open as /tmp.
share() {
    [ -d "$1" ] || install -d -m 1777 "$1"
}

# same_versions: whether the environment holds the packages that are wanted, in their versions.
same_versions() {
    "$ENVIRONMENT/bin/python" - "${PIP_PACKAGES[@]}" >>"$LOG" 2>&1 9>&- <<'END'
import sys
from importlib.metadata import version

for wanted in sys.argv[1:]:
    name, _, pin = wanted.partition("==")
    found = version(name).partition("+")[0]
    if found != pin and not (pin.endswith(".*") and found.startswith(pin[:-1])):
        sys.exit(f"{name} is {found}, not {pin}")
END
}

python_fits() {
    local has
    has=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    [[ " ${PYTHONS[*]} " == *" $has "* ]] ||
        refuse environment "python3 is $has, and Neuron SDK $SDK is for ${PYTHONS[*]}" \
            "Use ubuntu2404 with its own Python, and a neuron_sdk that is for it."
    # Ubuntu keeps what `python3 -m venv` needs in a package of its own.
    python3 -c 'import ensurepip' 2>>"$LOG" || apt install --no-install-recommends python3-venv
}

step_environment() {
    if [[ -z $ENVIRONMENT ]]; then
        say "Neuron SDK $SDK has no PyTorch for these nodes: no environment"
        return 0
    fi
    if [[ $ROLE == head && ! -e $ENVIRONMENT/complete ]]; then
        python_fits
        make_environment
        same_versions || refuse environment "pip has installed other versions than those of Neuron SDK $SDK"
        date -u +%FT%TZ >"$ENVIRONMENT/complete"
    fi
    if [[ -d $ENVIRONMENT_LINK && ! -L $ENVIRONMENT_LINK ]]; then
        say "the image's own $ENVIRONMENT_LINK stays in its place"
        return 0
    fi
    ln -sfn "$ENVIRONMENT" "$ENVIRONMENT_LINK"
}

# ---------------------------------------------------------------------------------------------------- run

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022
if ((EUID != 0)); then
    echo "trnctl-node: failed: ${FAILURES[start]}: this user is not root" >&2
    echo "trnctl-node: remedy: ${REMEDIES[start]}" >&2
    exit "${CODES[start]}"
fi
# Two at once (an update while a node boots) would wait for each other's locks of apt: the second waits here.
exec 9>/run/trnctl-node.lock
if ! flock --wait "$LOCK_S" 9; then
    say "failed: ${FAILURES[lock]}: another run of this script has not ended within $LOCK_S s"
    say "remedy: ${REMEDIES[lock]}"
    exit "${CODES[lock]}"
fi
touch "$LOG"
trap resume_upgrades EXIT
TYPE=$(instance_type)
say "Neuron SDK $SDK for a $ROLE node (${TYPE:-of unknown type}), kernel $(uname -r)"
for name in "${STEPS[@]}"; do
    step "$name"
done
say "all done in $SECONDS s"

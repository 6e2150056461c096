#!/usr/bin/env bash
# Gives a head node of the cluster custom1 the software of Neuron SDK 2.31.1. Written by trnctl.
#
# ParallelCluster runs it as root when the node is configured, and on the head node at every update. It can be run again
# at any time. Each step is named and timed in /var/log/trnctl-node.log; a failure has an exit code of its own.
# shellcheck disable=SC2034  # every setting stands in every script; not every kind of node uses all
# shellcheck disable=SC2016  # a remedy may quote a command

readonly ROLE=head
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
readonly STEPS=(start upgrades dpkg repository headers driver packages hosts limits environment hooks fleet)
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

# -------------------------------------------------------------------------------------------------- fleet

step_fleet() {
    install -d -m 755 /opt/trnctl/timer.d /opt/trnctl/lib /opt/trnctl/state
    put /opt/trnctl/fleet.json 644 <<'END'
{"bucket": "demo-trnctl", "capacity": {}, "cluster": "custom1", "head_type": "c5.4xlarge", "region": "us-west-2"}
END
    put /opt/trnctl/lib/s3.py 644 <<'END'
"""The few calls to S3 that nodes make, with the rights of their instance: list, get, put, delete.

Travels with the head node's script, and lies in a run's folder for its jobs. Nodes have no AWS software that could be
relied on (ParallelCluster's images lost the first AWS CLI in 3.16.2), so a request is signed here, as AWS's Signature
Version 4 is published. Credentials come from the environment, else from the instance's metadata (IMDSv2); the endpoint
from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, where one is set. A proxy is not asked. Only Python 3.6.
"""

import hashlib
import hmac
import json
import os
import time
from contextlib import suppress

METADATA = "http://169.254.169.254"
PATIENCE_S = 20  # for each answer of S3's
METADATA_PATIENCE_S = 3
DEADLINE_TRIES = 3  # of a request that met a 5xx, or a connection that broke
EMPTY = hashlib.sha256(b"").hexdigest()


class Unreachable(Exception):
    """S3 refused, or gave no answer; the text says which and what it said."""


class Bucket:
    """A bucket, by its name. `region` is where the cluster lies: S3 itself tells when the bucket lies elsewhere."""

    def __init__(self, name, region="", environ=None):
        environ = os.environ if environ is None else environ
        self.name = name
        self._endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
        self._metadata = Metadata(environ)
        self._region = region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
        self._keys, self._connection, self._tag = keys_of(environ), None, ""

    def list(self, prefix):
        """[(key, bytes, seconds since 1970 when it was written)] of all objects whose keys begin so, by key."""
        import calendar
        from xml.etree import ElementTree

        found, more = [], {}
        while more is not None:
            query = dict(more, **{"list-type": "2", "prefix": prefix})
            tree = ElementTree.fromstring(self._ask("GET", "", query))  # noqa: S314  the answer is AWS's own
            space = tree.tag.partition("}")[0] + "}" if tree.tag.startswith("{") else ""
            for item in tree.iter(space + "Contents"):
                moment = time.strptime(item.findtext(space + "LastModified")[:19], "%Y-%m-%dT%H:%M:%S")
                size = int(item.findtext(space + "Size"))
                found.append((item.findtext(space + "Key"), size, float(calendar.timegm(moment))))
            token = tree.findtext(space + "NextContinuationToken")
            more = {"continuation-token": token} if token else None
        return found

    def get(self, key):
        """The bytes of an object; None when it is not there."""
        return self._ask("GET", key, {}, absent=True)

    def put(self, key, content):
        """Write an object."""
        self._ask("PUT", key, {}, content)

    def begin(self, key):
        """Begin to write an object in parts; the id of the upload."""
        from xml.etree import ElementTree

        tree = ElementTree.fromstring(self._ask("POST", key, {"uploads": ""}))  # noqa: S314  the answer is AWS's own
        space = tree.tag.partition("}")[0] + "}" if tree.tag.startswith("{") else ""
        return tree.findtext(space + "UploadId")

    def part(self, key, upload, number, content):
        """Write one part; its tag, which `finish` wants."""
        self._ask("PUT", key, {"partNumber": str(number), "uploadId": upload}, content)
        return self._tag

    def finish(self, key, upload, tags):
        """Make an object of the parts, whose tags these are, in order."""
        rows = enumerate(tags, start=1)
        parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in rows)
        whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        answer = self._ask("POST", key, {"uploadId": upload}, whole)
        if b"<Error>" in answer:  # S3 may say 200 first and fail then
            raise Unreachable(f"S3 did not put the parts of s3://{self.name}/{key} together: {said(answer)}")

    def abandon(self, key, upload):
        """Let the parts of an upload go, which would cost otherwise; silent when that cannot be."""
        with suppress(OSError, Unreachable):
            self._ask("DELETE", key, {"uploadId": upload}, absent=True)

    def delete(self, key):
        """Remove an object; silent when it is gone."""
        self._ask("DELETE", key, {}, absent=True)

    def close(self):
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _ask(self, method, key, query, content=b"", absent=False):
        for left in reversed(range(DEADLINE_TRIES)):
            try:
                code, headers, body = self._once(method, key, query, content)
            except OSError as error:
                self.close()
                if not left:
                    raise Unreachable(f"S3 gave no answer: {error}") from error
                continue
            elsewhere = headers.get("x-amz-bucket-region", "")
            if code in (301, 307, 400) and elsewhere and elsewhere != self._region:
                self._region = elsewhere
            elif code < 300:
                self._tag = headers.get("etag", "")
                return body
            elif code in (400, 403) and b"ExpiredToken" in body and left:
                self._keys = keys_of(os.environ)  # an instance's keys live for hours, an export may live longer
            elif code == 404 and absent and b"NoSuchBucket" not in body:
                return None
            elif code < 500 or not left:
                raise Unreachable(f"S3 answered {code} to {method} of s3://{self.name}/{key}: {said(body)}")
            else:
                time.sleep(1)
        raise Unreachable(f"S3 gave no answer for s3://{self.name}/{key}")

    def _once(self, method, key, query, content):
        from http import client
        from urllib.parse import urlsplit

        if self._keys is None:
            self._keys = self._metadata.keys()
        if not self._region:
            self._region = self._metadata.region()
        tail = ".cn" if self._region.startswith("cn-") else ""
        where = urlsplit(self._endpoint or f"https://s3.{self._region}.amazonaws.com{tail}")
        path, words = target(self.name, key, query)
        headers = signed((method, where.netloc, path, words, content), self._region, self._keys, time.gmtime())
        if self._connection is None:
            kind = client.HTTPSConnection if where.scheme == "https" else client.HTTPConnection
            self._connection = kind(where.netloc, timeout=PATIENCE_S)
        try:
            self._connection.request(method, path + ("?" + words if words else ""), content or None, headers)
            answer = self._connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        except client.HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error


def target(bucket, key, query):
    """A request's path and query, quoted as the signature wants them. The bucket stands in the path: a name with dots
    fits no certificate."""
    from urllib.parse import quote

    path = quote(f"/{bucket}/{key}" if key else f"/{bucket}", safe="/-_.~")
    return path, "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(query.items()))


def signed(asked, region, keys, moment, *, service="s3", more=None):
    """The headers of a request (method, host, path, query, content) with its signature (AWS Signature Version 4).
    `more` are headers that another service wants."""
    method, host, path, words, content = asked
    stamp = time.strftime("%Y%m%dT%H%M%SZ", moment)
    digest = hashlib.sha256(content).hexdigest() if content else EMPTY
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp, **(more or {})}
    if keys[2]:
        headers["x-amz-security-token"] = keys[2]
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = "\n".join([method, path, words, lines, names, digest])
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + keys[1].encode()
    for word in scope.split("/"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys[0]}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def keys_of(environ):
    """(access key, secret key, session token or '') of the environment; None when it has none."""
    if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        return environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"], environ.get("AWS_SESSION_TOKEN", "")
    return None


class Metadata:
    """The instance's metadata, by IMDSv2: which role it has, its keys, its region."""

    def __init__(self, environ):
        self._endpoint = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or METADATA
        self._token = ""

    def keys(self):
        """The keys of the instance's role. Unreachable without one, or where this user may not ask: on a head node
        that keeps its metadata to itself (Imds/Secured) only root and the system's first user may."""
        role = self._ask("iam/security-credentials/").split("\n")[0]
        found = json.loads(self._ask("iam/security-credentials/" + role))
        return found["AccessKeyId"], found["SecretAccessKey"], found["Token"]

    def region(self):
        """The region that the instance is in."""
        return self._ask("placement/region")

    def _ask(self, what):
        if not self._token:
            head = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
            self._token = self._once("PUT", "/latest/api/token", head)
        return self._once("GET", "/latest/meta-data/" + what, {"X-aws-ec2-metadata-token": self._token})

    def _once(self, method, path, headers):
        from http import client
        from urllib.parse import urlsplit

        connection = client.HTTPConnection(urlsplit(self._endpoint).netloc, timeout=METADATA_PATIENCE_S)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace").strip()
        except (OSError, client.HTTPException) as error:
            raise Unreachable(f"this user gets no credentials from the instance's metadata: {error}") from error
        finally:
            connection.close()
        if answer.status >= 300:
            raise Unreachable(f"the instance's metadata answered {answer.status} to {path}")
        return text


def said(body):
    """What S3 says in its answer."""
    from xml.etree import ElementTree

    with suppress(ElementTree.ParseError):
        tree = ElementTree.fromstring(body)  # noqa: S314  the answer is AWS's own
        return "{}: {}".format(tree.findtext("Code") or "?", tree.findtext("Message") or "")
    return body[:200].decode("utf-8", "replace") or "nothing more"


def split(url):
    """The bucket and the prefix of s3://BUCKET/PREFIX, the prefix with a slash at its end unless it is empty."""
    bucket, _, prefix = url[len("s3://") :].partition("/")
    prefix = prefix.strip("/")
    return bucket, prefix + "/" if prefix else ""
END
    put /opt/trnctl/lib/dynamodb.py 644 <<'END'
"""The one call to DynamoDB that a head node makes, with its own rights, signed as `s3` signs. Only Python 3.6."""

import json
import os
import time

import s3

PATIENCE_S = 20
VERSION = "DynamoDB_20120810"


def call(operation, request, region, environ=None):
    """The answer to an operation, as DynamoDB's JSON protocol has it. s3.Unreachable when it refuses or is silent."""
    from http import client
    from urllib.parse import urlsplit

    environ = os.environ if environ is None else environ
    endpoint = environ.get("AWS_ENDPOINT_URL_DYNAMODB") or environ.get("AWS_ENDPOINT_URL")
    tail = ".cn" if region.startswith("cn-") else ""
    where = urlsplit(endpoint or f"https://dynamodb.{region}.amazonaws.com{tail}")
    body, keys = json.dumps(request).encode(), s3.keys_of(environ) or s3.Metadata(environ).keys()
    more = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"{VERSION}.{operation}"}
    headers = s3.signed(
        ("POST", where.netloc, "/", "", body), region, keys, time.gmtime(), service="dynamodb", more=more
    )
    kind = client.HTTPSConnection if where.scheme == "https" else client.HTTPConnection
    connection = kind(where.netloc, timeout=PATIENCE_S)
    try:
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        status, said = answer.status, answer.read().decode("utf-8", "replace")
    except (OSError, client.HTTPException) as error:
        raise s3.Unreachable(f"DynamoDB gave no answer: {error}") from error
    finally:
        connection.close()
    if status != 200:
        raise s3.Unreachable(f"DynamoDB answered {status} to {operation}: {said[:500]}")
    return json.loads(said or "{}")
END
    put /opt/trnctl/timer.d/fleet 755 <<'END'
#!/usr/bin/env python3
"""What the head node does about money once a minute: count the nodes that are on; stop the fleet when its time is over.

Written by trnctl; its timer runs it as root. Settings lie in /opt/trnctl/fleet.json, what it knows in
/opt/trnctl/state/fleet.json, which everybody may read:

    cluster, known_from      whose nodes are counted, and since when (seconds since 1970, as all times here)
    head_type                the head node's own instance type
    updated_at               the last look
    days                     {"2026-11-29": {"trn1.32xlarge": node-seconds}}: nodes that were on, boot and idling too;
                             `trn1.32xlarge spot` where they are bought otherwise than on demand
    on                       {"trn1.32xlarge": how many are on now}
    idle_since               since when no job was in the queue; null while there is one
    ttl                      stopped_at, why, waits_for (jobs that keep the fleet), done (an end that has been obeyed)

The fleet is stopped as `pcluster update-compute-fleet` does it: STOP_REQUESTED in the cluster's DynamoDB table, under
the condition that it runs, protected or not, which clusterstatusmgtd then carries out. The head node's role may do so
(ParallelCluster's own policy, sid DynamoDBTable); the script that ParallelCluster has on the node takes no other word
than PROTECTED. Setting the partitions inactive with scontrol would leave the fleet `running` for pcluster, and updates
be refused.

Standard library only, Python 3.6 and newer.
"""

import json
import os
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))  # beside timer.d, where this program lies
import dynamodb
import s3

LONGEST_GAP = 300  # seconds between two looks that are counted whole; of a longer gap nobody knows what was on
MIRROR_EVERY = 600  # seconds between two copies into the bucket
START_GRACE = 900  # seconds after a stop in which partitions may still look active
PATH = "/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin"


def main(root, now):
    """One look."""
    settings = read(root / "opt/trnctl/fleet.json")
    place = root / "opt/trnctl/state/fleet.json"
    state = read(place) or {"schema": 1, "cluster": settings["cluster"], "known_from": now, "days": {}, "ttl": {}}
    nodes, jobs = ask(["sinfo", "-h", "-N", "-o", "%N|%T|%f|%a|%R"]), ask(["squeue", "-h", "-a", "-o", "%i|%T"])
    if nodes is None or jobs is None:
        return  # Slurm does not answer: the next look counts what lies between
    rows = [line.split("|") for line in nodes.splitlines() if line.count("|") == 4]
    state["head_type"] = settings.get("head_type", "")
    state["on"] = powered(rows, settings.get("capacity", {}))
    count(state, now)
    state["idle_since"] = None if jobs.split() else state.get("idle_since") or now
    state["updated_at"] = now
    if settings.get("ttl"):
        active = any(row[3] == "up" for row in rows)
        mind(settings, state, active, len(jobs.splitlines()), now)
    mirror(settings, place, state, now)
    write(place, state)


def powered(rows, capacity):
    """How many nodes of each kind are on; `capacity` says how those of a queue are bought, if not on demand.

    A node in two partitions counts once; `~` ends the state of one that is off, `%` that of one that is being switched
    off.
    """
    kinds = {}
    for name, state, features, _, queue in rows:
        if not state.endswith(("~", "%")):
            kind = next((word for word in features.split(",") if "." in word), "unknown")
            kinds[name] = f"{kind} {capacity[queue]}" if queue in capacity else kind
    found = {}
    for kind in kinds.values():
        found[kind] = found.get(kind, 0) + 1
    return found


def count(state, now):
    """Add what was on since the last look; a gap in which nobody looked counts one minute."""
    last = state.get("updated_at")
    if last is None or now <= last:
        return
    began = last if now - last <= LONGEST_GAP else now - 60
    for day, seconds in days_of(began, now):
        row = state["days"].setdefault(day, {})
        for kind, nodes in state["on"].items():
            row[kind] = round(row.get(kind, 0) + nodes * seconds, 1)


def days_of(started, ended):
    """The stretch between two times as (2026-11-29, seconds) of each day (UTC) that it touches."""
    parts = []
    while started < ended:
        day = datetime.fromtimestamp(started, timezone.utc)  # noqa: UP017  Python 3.6 has no datetime.UTC
        midnight = day.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        until = min(ended, midnight.timestamp())
        parts.append((day.strftime("%Y-%m-%d"), until - started))
        started = until
    return parts


def mind(settings, state, active, jobs, now):
    """Stop the fleet when its time is over; never under a job, unless the cluster file says so."""
    wanted, told = settings["ttl"], state["ttl"]
    if told.get("stopped_at") and active and now - told["stopped_at"] > START_GRACE:
        # A person has started it again: the time of idling begins anew, and a date that has passed is not obeyed twice.
        state["ttl"] = told = {"done": told.get("done"), "started_at": now}
    told.pop("waits_for", None)
    if not active and not told.get("stopped_at"):
        told["started_at"] = now  # a person has stopped it: the time of idling begins when it is started again
    why = due(wanted, told, state, now)
    if not active or told.get("stopped_at") or why is None:
        return
    if jobs and not wanted.get("end_jobs"):
        told["waits_for"] = jobs
        return
    if jobs and not told.get("asked_at"):
        ask(["scancel", *job_ids()])  # Slurm sends TERM first: the jobs write down what they have reached
        told["asked_at"] = now
    if jobs and now - told["asked_at"] < LONGEST_GAP:
        return
    came = ask(["squeue", "-h", "-a", "-o", "%i"])
    if not wanted.get("end_jobs") and (came is None or came.strip()):
        return  # a job has come since the look, or Slurm no longer answers
    if stop(settings, now):
        state["ttl"] = {"stopped_at": now, "why": why, "done": wanted.get("at")}


def due(wanted, told, state, now):
    """Why the fleet's time is over, in words; None while it is not."""
    if wanted.get("at") and wanted["at"] <= now and told.get("done") != wanted["at"]:
        return "its ttl ended at {}".format(words(wanted["at"]))
    since = max(state["idle_since"] or now, told.get("started_at") or 0)
    if wanted.get("idle_s") and state["idle_since"] and now - since >= wanted["idle_s"]:
        return "no job for {:.3g} h, its ttl".format(wanted["idle_s"] / 3600)
    return None


def job_ids():
    """The jobs in the queue."""
    return (ask(["squeue", "-h", "-a", "-o", "%i"]) or "").split()


def stop(settings, now):
    """Ask for a stopped fleet; True when it was asked for, or is stopping already."""
    names = {"#data": "Data", "#status": "status", "#at": "lastStatusUpdatedTime"}
    moment = datetime.fromtimestamp(now, timezone.utc)  # noqa: UP017
    wanted = {
        "TableName": "parallelcluster-" + settings["cluster"],
        "Key": {"Id": {"S": "COMPUTE_FLEET"}},
        "UpdateExpression": "SET #data.#status = :asked, #data.#at = :now",
        "ConditionExpression": "#data.#status IN (:runs, :protected)",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {
            ":asked": {"S": "STOP_REQUESTED"},
            ":runs": {"S": "RUNNING"},
            ":protected": {"S": "PROTECTED"},  # some queues are inactive, and the others have nodes that cost
            ":now": {"S": str(moment)},
        },
    }
    try:
        dynamodb.call("UpdateItem", wanted, settings["region"])
    except s3.Unreachable as error:
        if "ConditionalCheckFailed" not in str(error):
            sys.stderr.write(f"trnctl: the fleet cannot be stopped: {error}\n")
            return False
    return True


def mirror(settings, place, state, now):
    """Copy what is known into the cluster's bucket now and then, so that it outlives the head node."""
    if not settings.get("bucket") or now - state.get("mirrored_at", 0) < MIRROR_EVERY or not place.is_file():
        return
    key = key_of(settings["cluster"], state["known_from"])
    try:
        s3.Bucket(settings["bucket"], settings["region"]).put(key, place.read_bytes())
    except (OSError, s3.Unreachable) as error:
        sys.stderr.write("trnctl: s3://{}/{} cannot be written: {}\n".format(settings["bucket"], key, error))
    state["mirrored_at"] = now  # also when it failed: the next try is as far away


def key_of(cluster, known_from):
    """Where a cluster's ledger lies in its bucket; another cluster of the same name has another."""
    moment = datetime.fromtimestamp(known_from, timezone.utc)  # noqa: UP017
    return "trnctl/{}/ledger/{}.json".format(cluster, moment.strftime("%Y%m%dT%H%M%SZ"))


def words(epoch):
    """2026-11-29 18:00 UTC."""
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")  # noqa: UP017


def ask(argv):
    """What a command of Slurm's printed; None when it failed."""
    done = run(argv)
    return None if done.returncode else done.stdout


def run(argv):
    """Run a command, at most 20 seconds; one that is missing or hangs has failed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SQUEUE_", "SINFO_"))}
    kept["PATH"] = kept.get("PATH", "") + ":" + PATH
    pipe, limit = subprocess.PIPE, 20
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            encoding="utf-8",
            timeout=limit,
            env=kept,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 124, "", str(error))


def read(path):
    """What a JSON file holds; None when it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write(path, state):
    """Write beside the file and move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.part"
    beside.write_text(json.dumps(state, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    beside.chmod(0o644)
    beside.replace(path)


if __name__ == "__main__":
    # It lies in /opt/trnctl/timer.d, below the root of the head node's files.
    main(Path(__file__).resolve().parents[3], time.time())
END
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

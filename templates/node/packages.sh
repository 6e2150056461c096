# shellcheck shell=bash
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

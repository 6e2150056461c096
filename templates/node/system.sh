# shellcheck shell=bash
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

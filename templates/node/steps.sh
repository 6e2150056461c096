# shellcheck shell=bash
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

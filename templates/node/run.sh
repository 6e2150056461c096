# shellcheck shell=bash
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

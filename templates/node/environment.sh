# shellcheck shell=bash
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

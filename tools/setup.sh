#!/usr/bin/env bash
# Prepares this checkout on Debian or Ubuntu: missing system packages, .venv with trnctl in it, node.js.
#
#     tools/setup.sh [EXTRA…]    as in `tools/setup.sh trainer`, which brings PyTorch for the reference trainer
#
# Quick when all is there. Every other make target runs it first. It starts no service: the tests and the
# sandbox run Slurm, munge and sshd themselves, on loopback ports.
set -euo pipefail
cd "$(dirname "$0")/.."

# What the tests and the sandbox call, and the Debian package that brings it.
declare -A package_of=(
    [slurmctld]=slurmctld [slurmd]=slurmd [sbatch]=slurm-client [munged]=munge
    [sshd]=openssh-server [ssh]=openssh-client [shellcheck]=shellcheck [rsync]=rsync [git]=git
)
pythons=(python3 python3.11 python3.12 python3.13 python3.14)
oldest_node=18

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

# Run a command; show what it printed only when it fails.
quietly() {
    local output
    if ! output=$("$@" 2>&1 </dev/null); then
        printf '%s\n' "$output" >&2
        fail "this failed: $*"
    fi
}

# The daemons are in sbin, which is not on a plain user's PATH.
have() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; }

find_python() {
    local name
    for name in "${pythons[@]}"; do
        if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

remove_policy() { "${as_root[@]}" rm -f /usr/sbin/policy-rc.d; }

# Install Debian packages without starting their daemons, now or at the next boot.
apt_install() {
    have apt-get || fail "these are missing, and there is no apt-get to install them with: $*"
    [ ${#as_root[@]} -eq 0 ] || have sudo || fail "run as root, or install sudo: apt-get install -y $*"
    say "installing with apt-get: $*"
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        trap remove_policy EXIT
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin /usr/sbin/policy-rc.d
    fi
    quietly "${as_root[@]}" apt-get update -q
    quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        -o DPkg::Lock::Timeout=120 "$@"
    if have systemctl; then
        local unit
        dpkg -L "$@" | sed -nE 's:.*/systemd/system/([^/@]+\.(service|socket))$:\1:p' | sort -u | while read -r unit; do
            quietly "${as_root[@]}" systemctl disable "$unit"
        done
    fi
}

install_system_packages() {
    local command missing=()
    for command in "${!package_of[@]}"; do
        have "$command" || missing+=("${package_of[$command]}")
    done
    find_python >/dev/null || missing+=(python3 python3-venv)
    [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
    find_python >/dev/null || apt_install python3.11-venv # Ubuntu 22.04: python3 is 3.10, 3.11 stands beside it
    find_python >/dev/null || fail "no Python of 3.11 or newer with venv was found"
}

# A whole new .venv whenever pyproject.toml changed or the checkout moved: what is in it never depends on its history.
install_python_packages() {
    local wanted
    wanted="$PWD $(sha256sum <pyproject.toml)"
    if [ ! -x .venv/bin/python ] || [ "$(cat .venv/stamp 2>/dev/null)" != "$wanted" ]; then
        local python
        python=$(find_python)
        say "installing trnctl and its tools into .venv ($("$python" --version), a minute or two)"
        quietly "$python" -m venv --clear .venv
        quietly .venv/bin/pip install --quiet --editable '.[dev,sandbox]'
        echo "$wanted" >.venv/stamp
    fi
}

# What only some targets need. An extra is in .venv or not: the stamp goes with the .venv that it is of.
install_extra() {
    if [ ! -e ".venv/stamp-$1" ]; then
        say "installing what the extra '$1' names into .venv"
        quietly .venv/bin/pip install --quiet --editable ".[$1]"
        touch ".venv/stamp-$1"
    fi
}

# Whether the make targets will find a node of a version that pcluster can use.
node_is_new_enough() {
    local version
    version=$(PATH="$PWD/.venv/bin:$PATH" node --version 2>/dev/null) || return
    [[ $version =~ ^v([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge "$oldest_node" ]
}

# pcluster runs node. Where PATH has none that is new enough, .venv/bin gets one, and make puts that folder first.
install_node() {
    if ! node_is_new_enough; then
        say "installing node.js into .venv, as there is none of version $oldest_node or newer on PATH"
        quietly .venv/bin/pip install --quiet --editable '.[node]'
        node_is_new_enough || fail "node.js was installed into .venv and does not run"
    fi
}

install_system_packages
install_python_packages
install_node
for extra in "$@"; do install_extra "$extra"; done

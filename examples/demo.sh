#!/usr/bin/env bash
# From nothing to a trained run and back to nothing, in the sandbox: the commands of a working day, one after another.
# AWS and the Neuron tools are emulated; pcluster, Slurm and ssh are real. Needs `trnctl` on PATH: `make demo` sees to it.
set -euo pipefail

cd "$(dirname "$0")"
export TRNCTL_TARGET=sandbox
TRNCTL_SANDBOX_HOME=$(mktemp -d "${TMPDIR:-/tmp}/trnctl-demo.XXXXXX")
export TRNCTL_SANDBOX_HOME
trap 'trnctl sandbox down >/dev/null 2>&1 || true; rm -rf "$TRNCTL_SANDBOX_HOME"' EXIT

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

show trnctl sandbox up
show trnctl -c trn1-16-nodes.yaml cluster create -y
show trnctl -c trn1-16-nodes.yaml submit bert-large --nodes 16 --name bert-large-demo
show trnctl -c trn1-16-nodes.yaml logs bert-large-demo -f
show trnctl -c trn1-16-nodes.yaml status
show trnctl -c trn1-16-nodes.yaml results bert-large-demo
show trnctl -c trn1-16-nodes.yaml teardown --delete-storage -y
show trnctl sandbox down

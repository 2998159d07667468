#!/usr/bin/env bash
# From a bare machine to two queue pairs that bounce 1,000 verified messages: on this machine's RDMA device where
# there is one whose port is up, otherwise on Soft-RoCE in a throw-away guest kernel. Sets up what is missing first.
#
#   examples/pingpong.sh [OPTIONS OF rdmaqp pingpong]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=.ci/setup.sh
source .ci/setup.sh

pingpong=(.venv/bin/rdmaqp pingpong --loopback --iters 1000 --validate "$@")

setup_packages
setup_environment lab
say "the command is .venv/bin/rdmaqp; put .venv/bin on your PATH, or: source .venv/bin/activate"
if has_active_device; then
    say "this machine has an RDMA device: running on it"
    exec "${pingpong[@]}"
fi
setup_lab
say "no RDMA device with an active port here: running in the lab"
exec .venv/bin/rdmaqp lab run -- "${pingpong[@]}"

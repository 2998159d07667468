#!/usr/bin/env bash
# A stock ibv_rc_pingpong, unchanged, under the guard: first with a GID index that is not in use, then with the right
# one. Run it where there is an RDMA device, or in the lab:
#
#   rdmaqp lab run -- examples/guard_pingpong.sh [DEVICE [WRONG_INDEX [RIGHT_INDEX]]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.venv/bin:$PATH
device=${1:-rxe0} wrong=${2:-9} right=${3:-1}

# A server with GID index $1 under the guard, and a client that makes no mistake. ibv_rc_pingpong listens on 18515,
# which is 4853 in hexadecimal.
both_ends() {
    printf '\n$ rdmaqp guard -- ibv_rc_pingpong -d %s -g %s -n 1000\n' "$device" "$1"
    rdmaqp guard -- ibv_rc_pingpong -d "$device" -g "$1" -n 1000 &
    local server=$!
    until grep -q ':4853 [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
    ibv_rc_pingpong -d "$device" -g "$right" -n 1000 127.0.0.1 >/dev/null 2>&1 || true # it may lose its other end
    wait "$server" || printf '(exit status %s)\n' $?
}

both_ends "$wrong"
both_ends "$right"

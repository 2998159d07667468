#!/usr/bin/env bash
# Sets up what is missing, then runs all tests: those that need no device here, those that boot guests of their own,
# and those that need a device in one guest (or on a device of this machine's).
#
#   tests/run.sh [--device NAME] [ARGUMENTS OF pytest]
#
# The exit status is 0 only when every group passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=.ci/setup.sh
source .ci/setup.sh

device=''
if [[ ${1:-} == --device ]]; then
    [[ -n ${2:-} ]] || fail "--device needs a name, such as mlx5_0 (see: ls /sys/class/infiniband)"
    device=$2
    shift 2
    [[ -e /sys/class/infiniband/$device ]] || fail "--device $device: this machine has no such RDMA device" \
        "It has: $(ls /sys/class/infiniband 2>/dev/null || echo none)"
fi

pytest=(.venv/bin/python -m pytest -p no:cacheprovider)
groups=()
failed=0

# group NAME COMMAND...: runs it, notes how it ended and how long it took, and goes on.
group() {
    local name=$1 begun=$SECONDS status=0
    shift
    printf '\n== %s\n' "$name"
    "$@" || status=$?
    groups+=("$(printf '%-44s %s  %d min %02d s' "$name" \
        "$( ((status == 0)) && echo passed || echo "FAILED (status $status)")" \
        $(((SECONDS - begun) / 60)) $(((SECONDS - begun) % 60)))")
    ((status == 0)) || failed=1
}

setup_packages
setup_environment lab,test
setup_lab
group "without a device, here" "${pytest[@]}" -m 'not device and not lab' "$@"
group "the lab itself (boots guests)" "${pytest[@]}" -m lab "$@"
if [[ -n $device ]]; then
    group "with a device, on $device" "${pytest[@]}" -m device --device "$device" "$@"
else
    group "with a device, in the lab" \
        .venv/bin/rdmaqp lab run --memory 2G -- "${pytest[@]}" -m device --device rxe0 "$@"
fi

printf '\n'
printf '%s\n' "${groups[@]}"
exit "$failed"

#!/usr/bin/env bash
# Sets up what is missing, then runs all tests: those that need no device here, those that boot guests of their own,
# and those that need a device in one guest (or on a device of this machine's).
#
#   tests/run.sh [--device NAME] [ARGUMENTS OF pytest]
#
# The exit status is 0 only when every group passed. A group in which pytest finds no test has failed, unless arguments
# were given that may have selected none of it.
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

selecting=$#
pytest=(.venv/bin/python -m pytest -p no:cacheprovider)
groups=()
failed=0
found=0

# group NAME COMMAND...: runs it, notes how it ended and how long it took, and goes on.
group() {
    local name=$1 begun=$SECONDS status=0 outcome=passed
    shift
    printf '\n== %s\n' "$name"
    "$@" || status=$?
    if ((status == 5 && selecting)); then
        outcome='none selected'
    elif ((status != 0)); then
        outcome="FAILED (status $status)"
        failed=1 found=1
    else
        found=1
    fi
    groups+=("$(printf '%-32s %-20s %d min %02d s' "$name" "$outcome" \
        $(((SECONDS - begun) / 60)) $(((SECONDS - begun) % 60)))")
}

# shellcheck disable=SC2317  # group calls it
check_style() {
    .venv/bin/ruff check . && .venv/bin/mypy
}

PACKAGES+=(
    "valgrind           reads over the preloaded library's shoulder"
    "graphviz           takes the drawing of the state machine"
)
setup_packages
setup_environment lab,test
setup_lab
(($# > 0)) || group "types and style" check_style
group "without a device, here" "${pytest[@]}" -m 'not device and not lab' "$@"
group "the lab itself (boots guests)" "${pytest[@]}" -m lab "${@:-tests/lab}"
# Only this folder: to collect all tests takes a minute in an emulated guest.
device_tests=("${pytest[@]}" -m device "${@:-tests/device}")
oracle=tests/device/test_oracle.py
if [[ -n $device ]]; then
    group "with a device, on $device" "${device_tests[@]}" --device "$device"
else
    in_lab=(.venv/bin/rdmaqp lab run --memory 2G --)
    (($# > 0)) || device_tests+=(--deselect "$oracle")
    group "with a device, in the lab" "${in_lab[@]}" "${device_tests[@]}" --device rxe0
    # In a guest of its own: it hands the kernel whatever there is, and some kernels are not the same afterwards.
    (($# > 0)) || group "the guard against the kernel" "${in_lab[@]}" "${pytest[@]}" -m device "$oracle" --device rxe0
fi

printf '\n'
printf '%s\n' "${groups[@]}"
((found)) || fail "these arguments select no test at all: $*"
exit "$failed"

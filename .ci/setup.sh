# shellcheck shell=bash
# Sets up what a checkout needs on Debian 12 or later or Ubuntu, and only that. Sourced by examples/pingpong.sh and
# tests/run.sh; says what it does; a second run finds everything there and takes a second.
#
#   setup_packages            system packages that are missing, by apt (root or sudo)
#   setup_environment EXTRAS  .venv with rdmaqp in it, built in place; EXTRAS as in pyproject.toml ("lab,test")
#   setup_lab                 a kernel for the lab, fetched into the user's cache where none here can serve

# Each package and what needs it. The table is printed when packages cannot be installed.
QEMU_PACKAGE=qemu-system-x86
[[ $(uname -m) != aarch64 ]] || QEMU_PACKAGE=qemu-system-arm
PACKAGES=(
    "gcc                builds the compiled half"
    "libc6-dev          builds the compiled half"
    "libibverbs-dev     builds the compiled half (infiniband/verbs.h)"
    "librdmacm-dev      connections by rdma_cm (rdma/rdma_cma.h)"
    "ibverbs-providers  the device drivers' user half, rxe's among them"
    "ibverbs-utils      ibv_devinfo, and ibv_rc_pingpong to talk to"
    "iproute2           rdma and ip, which make the Soft-RoCE device"
    "kmod               modprobe and depmod, for the lab's kernel"
    "udev               names devices in the lab"
    "$QEMU_PACKAGE    runs the lab's guest"
    "busybox-static     starts the lab's guest"
    "file               tells virtme-ng a kernel's version"
)

say() { printf 'setup: %s\n' "$*" >&2; }

# fail MESSAGE LINE...: the message, the lines below it, and out.
fail() {
    printf 'setup: %s\n' "$1" >&2
    shift
    (($# == 0)) || printf '    %s\n' "$@" >&2
    exit 1
}

is_installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

as_root() {
    if ((EUID == 0)); then
        "$@"
    else
        sudo "$@"
    fi
}

can_be_root() {
    ((EUID == 0)) || command -v sudo >/dev/null
}

apt_install() {
    # Recommended packages of QEMU are graphics and sound: several hundred megabytes that no lab needs.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2
}

# The Python to use: 3.11 or later, the plain name first.
find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

# A distribution's Python has its headers and ensurepip in packages of their own.
python_packages() {
    local python version
    python=$(find_python) || return 0
    version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    "$python" -c 'import ensurepip' 2>/dev/null || echo "$version-venv"
    "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' || echo "$version-dev"
}

missing_packages() {
    local row name
    for row in "${PACKAGES[@]}"; do
        name=${row%% *}
        is_installed "$name" || echo "$name"
    done
    find_python >/dev/null || echo python3
}

install_packages() {
    local missing=("$@")
    say "installing by apt: ${missing[*]}"
    if ! can_be_root; then
        fail "these packages are missing and installing them takes root, but there is no sudo here: ${missing[*]}" \
            "What to do, as root:  apt-get install --no-install-recommends ${missing[*]}" "${PACKAGES[@]}"
    fi
    apt_install "${missing[@]}" && return 0
    say "that failed; fetching the package lists and trying once more"
    if as_root apt-get update -q >&2 && apt_install "${missing[@]}"; then
        return 0
    fi
    fail "apt could not install: ${missing[*]}" \
        "What to do: read apt's message above. Without a network, install them some other way and start again." \
        "${PACKAGES[@]}"
}

setup_packages() {
    if ! command -v dpkg-query >/dev/null; then
        say "no dpkg here, so no package is looked for; on RHEL or Fedora install these first:"
        say "    dnf install gcc python3-devel rdma-core-devel libibverbs-utils iproute kmod file busybox qemu-kvm"
        return 0
    fi
    local missing
    mapfile -t missing < <(missing_packages)
    ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
    # Only now: a Python that has just been installed may lack its parts.
    mapfile -t missing < <(python_packages)
    ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
    find_python >/dev/null || fail "no Python 3.11 or later here" \
        "What to do: install one (Debian 12 and Ubuntu 24.04 have it as python3), so that python3.11 or later is found."
}

# The Python that .venv was made with, and where: scripts in it name the checkout's directory.
venv_print() {
    printf '%s %s' "$("$1" -VV)" "$PWD"
}

# What the compiled half was built from: when it changes, it is built again.
build_print() {
    {
        cat pyproject.toml setup.py build_ffi.py
        find rdmaqp/verbs/_c rdmaqp/preload/_c -type f | LC_ALL=C sort | xargs cat
        dpkg-query -W -f '${Version}' libibverbs-dev 2>/dev/null || true
    } | sha256sum | cut -d' ' -f1
}

setup_environment() {
    local extras=$1 python print
    python=$(find_python) || fail "no Python 3.11 or later here"
    if [[ $(cat .venv/made-with 2>/dev/null) != "$(venv_print "$python")" ]]; then
        say "making .venv with $python"
        "$python" -m venv --clear .venv >&2 || fail "$python could not make .venv; its message is above" \
            "What to do: on Debian and Ubuntu install python3-venv; look whether the checkout is writable."
        venv_print "$python" >.venv/made-with
    fi
    print=$(build_print)
    # "lab" is satisfied by what was installed for "lab,test".
    if compgen -G 'rdmaqp/_verbs*.so' >/dev/null && [[ $(cat .venv/built-from 2>/dev/null) == "$print $extras"* ]]; then
        return 0
    fi
    say "building rdmaqp in place: pip install -e '.[$extras]'"
    # Neither pip nor setuptools notices headers that have changed: an old extension would stay.
    rm -rf build rdmaqp/_verbs*.so rdmaqp/preload/_*.so
    .venv/bin/python -m pip install -q --disable-pip-version-check -e ".[$extras]" >&2 ||
        fail "pip could not install rdmaqp with [$extras]; its message is above" \
            "What to do: where it could not reach the index, look at the network, a proxy (https_proxy) or PIP_INDEX_URL."
    echo "$print $extras" >.venv/built-from
}

setup_lab() {
    .venv/bin/rdmaqp lab status >/dev/null 2>&1 && return 0
    say "preparing the lab: rdmaqp lab setup"
    .venv/bin/rdmaqp lab setup >&2 && return 0
    if ! can_be_root || ! command -v apt-get >/dev/null; then
        fail "the lab is not ready; what is missing is above"
    fi
    say "that failed; fetching the package lists and trying once more"
    as_root apt-get update -q >&2 || fail "apt-get update failed; its message is above"
    .venv/bin/rdmaqp lab setup >&2 || fail "the lab is not ready; what is missing is above"
}

# Whether this machine has an RDMA device with a port that is up.
has_active_device() {
    grep -qs ': ACTIVE$' /sys/class/infiniband/*/ports/*/state
}

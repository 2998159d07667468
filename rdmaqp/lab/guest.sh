#!/bin/bash
# Runs inside the guest as root: brings a Soft-RoCE device up, then runs the command.
#
#   guest.sh TOKEN MEMLOCK HOST DIRECTORY COMMAND...
#
# HOST is 1 or 2 where two guests meet on a network, else "alone".
#
# Three virtio-serial ports lead to the host: rdmaqp.stdout and rdmaqp.stderr carry the command's output, byte for
# byte, and end with TOKEN; rdmaqp.status carries lines: "stage ...", "failed ...", "ready", "exit N".
# A guest's write returns before the host has read it, so powering off could lose the end of the output. Hence the
# token: when the host has seen it on both ports it knows that nothing is missing, and ends the guest itself.
set -u

token=$1 memlock=$2 host=$3 directory=$4
shift 4

number=1
[[ $host == alone ]] || number=$host
address=192.0.2.$number/24      # TEST-NET-1 (RFC 5737): never a real network
peer_address=192.0.2.2/24       # of a guest that is alone
ports=/dev/virtio-ports
root_parts=/run/rdmaqp-root
root=$root_parts/root

exec 3>"$ports/rdmaqp.status"
say() { printf '%s\n' "$*" >&3; }

# Runs one step; when it fails, tells the host which one and what it printed, and stops.
step() {
    local printed
    if ! printed=$("$@" 2>&1); then
        say "failed $*: ${printed//$'\n'/ | }"
        sleep 30  # the host ends the guest; leaving here would power it off before the line is read
        exit 1
    fi
}

# rxe takes its port state and its GIDs from the net device, a moment after the link is added.
wait_for_port() {
    local port=/sys/class/infiniband/rxe0/ports/1 state='' gid='' _
    for _ in {1..100}; do
        state=$(<"$port/state") gid=$(<"$port/gids/1")
        [[ $state == *ACTIVE* && $gid == *ffff:c000:020$number && -c /dev/infiniband/uverbs0 ]] && return 0
        sleep 0.1
    done
    echo "after 10 s: state '$state', gid 1 '$gid', /dev/infiniband: $(ls /dev/infiniband 2>&1)"
    return 1
}

soft_roce() {
    say "stage loading rdma_rxe"
    step modprobe -a ib_uverbs rdma_rxe veth overlay
    # For connections by rdma_cm; a kernel may come without it.
    ! modprobe --dry-run --quiet rdma_ucm || step modprobe rdma_ucm
    say "stage making the network link"
    if [[ $host == alone ]]; then
        own_link
    else
        card
    fi
    step ip addr add "$address" dev roce0
    step ip link set roce0 up
    step ip link set lo up
    say "stage adding the Soft-RoCE device"
    step rdma link add rxe0 type rxe netdev roce0
    step wait_for_port
}

own_link() {
    # A veth pair whose far end lives in a namespace of its own and answers ARP: addresses resolve as they do on a
    # real network (a dummy device would accept every address). rxe itself works in the first namespace only.
    step ip netns add peer
    step ip link add roce0 type veth peer name roce0 netns peer
    step ip -n peer addr add "$peer_address" dev roce0
    step ip -n peer link set roce0 up
    step ip -n peer link set lo up
}

# The network card, on the cable to the other guest.
card() {
    local device=''
    step modprobe virtio_net
    step udevadm settle  # which may give it another name
    device=$(find_card)
    [[ -n $device ]] || step false "there is no network card of virtio's"
    step ip link set "$device" down
    step ip link set "$device" name roce0
}

find_card() {
    local path
    for path in /sys/class/net/*; do
        [[ $(<"$path/address") != 52:54:00:c0:02:0* ]] || echo "${path##*/}"
    done
}

# Makes the root that the command runs in: this machine's files, writable everywhere, and gone with the guest.
# virtme's own root is 9p without a cache, over which a Python interpreter takes fifteen seconds to start; nothing
# but this guest changes what it sees, so it may cache. Where the root is virtiofs, it is cached already.
own_root() {
    local lower=/ directory
    mkdir -p "$root_parts"
    mount -t tmpfs -o size=75% tmpfs "$root_parts" || return 1
    mkdir -p "$root_parts"/{host,upper,work} "$root"
    if grep -qsx rdmaqp.root /sys/bus/virtio/devices/*/mount_tag; then
        lower=$root_parts/host
        mount -t 9p -o ro,version=9p2000.L,trans=virtio,cache=loose,msize=524288 rdmaqp.root "$lower" || return 1
    fi
    mount -t overlay -o "lowerdir=$lower,upperdir=$root_parts/upper,workdir=$root_parts/work" overlay "$root" || return 1
    for directory in /proc /sys /dev /run /lib/modules; do
        mkdir -p "$root$directory"
        mount --rbind "$directory" "$root$directory" || return 1
    done
    shared_directories | while IFS= read -r directory; do
        mkdir -p "$root$directory"
        mount --bind "$directory" "$root$directory" || return 1
    done
}

# The directories of --rwdir, which virtme has mounted one by one.
shared_directories() {
    local source directory
    while read -r source directory _; do
        # /proc/mounts writes a space as \040, which printf reads.
        # shellcheck disable=SC2059  # its escapes are what printf is for here
        [[ $source != virtme.initmount* ]] || printf "$directory\n"
    done </proc/mounts
}

# Copies what the command prints to a port. The pipe in between makes /dev/stdout, several writers and background
# processes work as everywhere else; a virtio-serial port admits one opener only.
copier() { exec cat "$1" >"$2"; }

finish_copiers() {
    local _
    for _ in {1..20}; do
        kill -0 "$@" 2>/dev/null || return 0
        sleep 0.1
    done
    kill "$@" 2>/dev/null  # a background process still holds the pipe: the command itself has ended
    wait "$@" 2>/dev/null
}

run_command() {
    local pipes=/run/rdmaqp out err code
    mkdir -p "$pipes"
    mkfifo "$pipes/out" "$pipes/err"
    rm -f /dev/stdout /dev/stderr
    ln -s /proc/self/fd/1 /dev/stdout
    ln -s /proc/self/fd/2 /dev/stderr
    copier "$pipes/out" "$ports/rdmaqp.stdout" & out=$!
    copier "$pipes/err" "$ports/rdmaqp.stderr" & err=$!
    say ready
    (
        exec 3>&-
        # shellcheck disable=SC2016  # the inner shell expands it
        exec chroot "$root" /bin/bash -c 'cd "$1" && shift && exec "$@"' bash "$directory" "$@"
    ) </dev/null >"$pipes/out" 2>"$pipes/err"
    code=$?
    finish_copiers "$out"
    finish_copiers "$err"
    sync  # what went to a directory shared with --rwdir
    printf %s "$token" >"$ports/rdmaqp.stdout"
    printf %s "$token" >"$ports/rdmaqp.stderr"
    say "exit $code"
    sleep 60  # until the host has read everything and ends the guest
}

say "stage userspace is up"
step ulimit -l "$memlock"
ulimit -l "$memlock"  # again, because a step runs in a subshell
soft_roce
say "stage preparing the root directory"
step own_root
step cd "$root$directory"
run_command "$@"

#!/bin/bash
# In one of two guests that are joined by a network link: makes Soft-RoCE on that link, then runs the command.
#   two_hosts.sh ADDRESS COMMAND...
set -eu
address=$1
shift
modprobe -a virtio_net sch_netem
for _ in {1..50}; do
    device=$(basename "$(dirname "$(grep -l 52:54:00:00:00 /sys/class/net/*/address 2>/dev/null | head -1)")")
    [[ $device == . ]] || break
    sleep 0.1
done
rdma link delete rxe0
ip address add "$address/24" dev "$device"
ip link set "$device" up
rdma link add rxe0 type rxe netdev "$device"
for _ in {1..100}; do
    [[ $(cat /sys/class/infiniband/rxe0/ports/1/state) == *ACTIVE* ]] && grep -qs ffff:c633 /sys/class/infiniband/rxe0/ports/1/gids/1 && break
    sleep 0.1
done
export LINK=$device
exec "$@"

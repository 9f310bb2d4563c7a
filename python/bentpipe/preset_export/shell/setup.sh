# shape IN OUT IFB RATE BURST QUEUE LIMIT NETEM FLIGHT: packets that arrive at IN leave at OUT.
shape() {
    if [ -n "$4" ]; then
        ip link add name "$3" type ifb
        # Merged packets of offloads leave the device one by one, so that netem loses and counts single packets.
        ip link set dev "$3" gso_max_segs 1
        ip link set dev "$3" up
        tc qdisc add dev "$3" root handle 1: tbf rate "$4" burst "$5" limit "$7"
        tc qdisc add dev "$3" parent 1:1 handle 2: $6
        tc qdisc add dev "$1" handle ffff: ingress
        tc filter add dev "$1" parent ffff: matchall action mirred egress redirect dev "$3"
    fi
    tc qdisc add dev "$2" root handle 1: netem limit "$9" $8
}

# unshape IN OUT IFB: removes all of it, also after an incomplete set-up.
unshape() {
    tc qdisc del dev "$2" root 2>/dev/null || true
    tc qdisc del dev "$1" ingress 2>/dev/null || true
    ip link del dev "$3" 2>/dev/null || true
}

devices() {
    : "${CLIENT_DEV:?is missing, expected the interface towards the client}"
    : "${SERVER_DEV:?is missing, expected the interface towards the server}"
}

setup() {
    devices
    trap 'echo "$0: incomplete; teardown removes what was set up" >&2' EXIT
    shape "$SERVER_DEV" "$CLIENT_DEV" "$DOWN_IFB" "$DOWN_RATE" "$DOWN_BURST" \
        "$DOWN_QUEUE" "$DOWN_LIMIT" "$DOWN_NETEM" "$DOWN_FLIGHT"
    shape "$CLIENT_DEV" "$SERVER_DEV" "$UP_IFB" "$UP_RATE" "$UP_BURST" \
        "$UP_QUEUE" "$UP_LIMIT" "$UP_NETEM" "$UP_FLIGHT"
    trap - EXIT
}

teardown() {
    devices
    unshape "$SERVER_DEV" "$CLIENT_DEV" "$DOWN_IFB"
    unshape "$CLIENT_DEV" "$SERVER_DEV" "$UP_IFB"
}

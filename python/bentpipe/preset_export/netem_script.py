"""Fixed parts of the script with ``tc``: setting up, tearing down, network namespaces, changes over time."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["BODY", "LAB", "dispatch", "schedule_function"]

BODY = r"""
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
"""

LAB = r"""
# Namespaces LAB-client (10.77.1.2), LAB-router and LAB-server (10.77.2.2).
LAB=${LAB:-bentpipe}

lab() {
    if ip netns list | grep -q "^$LAB-client"; then
        echo "$0: $LAB-client exists; lab-end removes it, or LAB=NAME chooses other names" >&2
        exit 1
    fi
    trap lab_end EXIT
    for node in client router server; do
        ip netns add "$LAB-$node"
        ip -n "$LAB-$node" link set dev lo up
    done
    net=1
    for node in client server; do
        ip -n "$LAB-$node" link add name eth0 type veth peer name "$node" netns "$LAB-router"
        ip -n "$LAB-$node" address add "10.77.$net.2/24" dev eth0
        ip -n "$LAB-router" address add "10.77.$net.1/24" dev "$node"
        ip -n "$LAB-$node" link set dev eth0 up
        ip -n "$LAB-router" link set dev "$node" up
        ip -n "$LAB-$node" route add default via "10.77.$net.1"
        net=$((net + 1))
    done
    ip netns exec "$LAB-router" sh -c "echo 1 > /proc/sys/net/ipv4/ip_forward"
    ip netns exec "$LAB-router" env CLIENT_DEV=client SERVER_DEV=server sh "$0" setup
    trap - EXIT
    echo "ip netns exec $LAB-client COMMAND reaches 10.77.2.2 in $LAB-server"
}

lab_end() {
    for node in client router server; do
        ip netns del "$LAB-$node" 2>/dev/null || true
    done
}
"""

_CHANGE = r"""
# change RATE BURST NETEM: from now on.
change_down() {
    [ -z "$1" ] || tc qdisc change dev "$DOWN_IFB" root handle 1: tbf rate "$1" burst "$2" limit "$DOWN_LIMIT"
    tc qdisc change dev "$CLIENT_DEV" root handle 1: netem limit "$DOWN_FLIGHT" $3
}

change_up() {
    [ -z "$1" ] || tc qdisc change dev "$UP_IFB" root handle 1: tbf rate "$1" burst "$2" limit "$UP_LIMIT"
    tc qdisc change dev "$SERVER_DEV" root handle 1: netem limit "$UP_FLIGHT" $3
}

restore() {
    change_down "$DOWN_RATE" "$DOWN_BURST" "$DOWN_NETEM"
    change_up "$UP_RATE" "$UP_BURST" "$UP_NETEM"
}
"""


def schedule_function(commands: Sequence[str], boundary: str = "", *, is_repeated: bool) -> str:
    """Return the functions that change the settings over time.

    Args:
        commands: calls of ``change_down``, ``change_up`` and ``sleep``.
        boundary: command that waits for the first instant; empty: none.
        is_repeated: the commands repeat until the script is interrupted.
    """
    indent = " " * (8 if is_repeated else 4)
    lines = ["schedule() {", "    devices"]
    lines += [f"    {boundary}"] if boundary else []
    if is_repeated:  # an interrupted burst of losses must not stay
        lines += ["    trap restore EXIT", "    trap 'exit 130' INT TERM", "    while :; do"]
    lines += [f"{indent}{command}" for command in commands]
    lines += ["    done"] if is_repeated else []
    return "\n".join([_CHANGE, *lines, "}"]) + "\n"


def dispatch(commands: Sequence[str]) -> str:
    """Return the selection of the command, at the end of the script."""
    cases = [f"{name}) {name.replace('-', '_')} ;;" for name in commands]
    usage = '*) echo "usage: $0 ' + "|".join(commands) + '" >&2; exit 2 ;;'
    return "\n".join(["", 'case "${1:-}" in', *cases, usage, "esac"]) + "\n"

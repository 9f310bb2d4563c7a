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

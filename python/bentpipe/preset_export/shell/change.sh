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

//! Connections are told apart however many there were, and leave their places.

use bytes::BytesMut;
use units::{Span, Time};

use super::dial::Limits;
use super::endpoint::address;
use super::outlet::Packets;
use super::{Arrival, Connection, Endpoint, QuicSpec};
use crate::load::{AmountSpec, PerfClient, PerfServer, StreamSpec};
use crate::{App, Endpoint as _, Payload, Side};

pub(super) fn endpoint(side: Side) -> Endpoint {
    let spec = QuicSpec {
        mtu_bytes: 1252,
        initial_window_bytes: 12_520,
        unpaced_burst_packets: 10,
        initial_rtt_ns: 100_000_000,
        ..QuicSpec::default()
    };
    let app = move |_| -> Box<dyn App> {
        match side {
            Side::Client => Box::new(PerfClient::new(&[])),
            Side::Server => Box::new(PerfServer::default()),
        }
    };
    let config = cc::ControllerConfig {
        mss: 1252,
        initial_window: 12_520,
        initial_rtt: Span::from_millis(100),
        seed: 1,
        is_paced: true,
    };
    let controller =
        move || cc::build_controller("newreno", &serde_json::json!({}), &config).unwrap();
    Endpoint::new(side, &spec, 1, side.name(), Box::new(app), Box::new(controller)).unwrap()
}

#[test]
fn the_65_537th_connection_is_none_of_those_before() {
    let (mut client, mut server) = (endpoint(Side::Client), endpoint(Side::Server));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for opened in [0, 1 << 16] {
        client.ledger.opened = opened;
        client.connect(Time::ZERO, None, &mut up).unwrap();
    }
    for _ in 0..4 {
        up.drain(..).for_each(|payload| server.receive(Time::ZERO, payload, &mut down));
        down.drain(..).for_each(|payload| client.receive(Time::ZERO, payload, &mut up));
    }
    for side in [&client, &server] {
        let live: Vec<_> = side.live().map(|one| (one.index(), one.connected_at())).collect();
        assert_eq!(live, [(0, Some(Time::ZERO)), (1 << 16, Some(Time::ZERO))]);
    }
}

/// As a socket's driver does: all of them, then one turn.
fn feed(server: &mut Endpoint, payloads: &mut Vec<Payload>, out: &mut Vec<Payload>) {
    let mut packets = Packets::new(out, 28);
    for payload in payloads.drain(..) {
        let Payload::Datagram(datagram) = payload else { continue };
        let data = BytesMut::from(&*datagram.payload());
        let remote = address(datagram.connection);
        let arrival = Arrival { remote, local: None, ecn: datagram.ecn, data };
        server.feed(Time::ZERO, arrival, &mut packets);
    }
    server.run_all(Time::ZERO, &mut packets);
}

#[test]
fn who_leaves_and_who_comes_in_one_turn_share_a_place() {
    let (mut client, mut server) = (endpoint(Side::Client), endpoint(Side::Server));
    server.limits = Some(Limits { connections: 1, handshakes: 1000, give_way: false });
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for turn in 0..2 {
        client.connect(Time::ZERO, None, &mut up).unwrap();
        for _ in 0..4 {
            feed(&mut server, &mut up, &mut down);
            down.drain(..).for_each(|payload| client.receive(Time::ZERO, payload, &mut up));
        }
        let open: Vec<_> = server.live().filter(|one| !one.is_closed()).collect();
        assert_eq!(open.len(), 1, "turn {turn}");
        assert!(open[0].connected_at().is_some(), "turn {turn}");
        client.close(Time::ZERO, &mut Packets::new(&mut up, 28));
    }
}

/// RFC 9000 section 10.2.2: what a connection keeps goes when the peer has closed it, and late packets are ignored for three
/// PTOs all the same. After that they are answered by a reset (section 10.3).
#[test]
fn a_connection_that_the_peer_has_closed_leaves_at_once_and_ignores_late_packets() {
    let (mut client, mut server) = (endpoint(Side::Client), endpoint(Side::Server));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut seen = Vec::new();
    for opened in 0..2 {
        client.connect(Time(opened), None, &mut up).unwrap();
    }
    for _ in 0..4 {
        seen.extend(up.iter().cloned());
        up.drain(..).for_each(|payload| server.receive(Time(2), payload, &mut down));
        down.drain(..).for_each(|payload| client.receive(Time(2), payload, &mut up));
    }
    let known = |endpoint: &Endpoint, number| endpoint.connection(number).map(Connection::index);
    assert_eq!([0, 1, 2].map(|number| known(&server, number)), [Some(0), Some(1), None]);
    client.close(Time(3), &mut Packets::new(&mut up, 28));
    seen.extend(up.iter().cloned());
    up.drain(..).for_each(|payload| server.receive(Time(3), payload, &mut down));
    assert_eq!(server.live().count(), 1, "the last is still to be looked at");
    let before = (server.gauges(), server.counters(), server.completed());
    server.wake(Time(4), &mut down);
    assert_eq!((server.live().count(), known(&server, 0), known(&server, 1)), (0, None, None));
    assert!(server.gauges().cwnd > 0 && server.controller().is_some());
    assert_eq!((server.gauges(), server.counters(), server.completed()), before);
    down.clear();
    for payload in &seen {
        server.receive(Time(5), payload.clone(), &mut down);
    }
    assert!(down.is_empty() && server.live().count() == 0, "late packets");
    let until = server.wake_at();
    assert!(until > Time(5) && until < Time::MAX);
    server.wake(until, &mut down);
    let drained = server.wake_at();
    assert!(drained == Time::MAX || drained > until);
    server.wake(Time(u64::MAX / 2), &mut down);
    assert_eq!((server.wake_at(), server.controller().is_none()), (Time::MAX, true));
    let last = seen.pop().unwrap();
    server.receive(Time(u64::MAX / 2), last, &mut down);
    assert_eq!(down.len(), 1, "a reset");
}

/// The stack renews its keys at the latest with the thousandth packet: those before and after are kept without their zeros.
#[test]
fn of_a_stream_on_its_way_a_twelfth_is_kept_whatever_the_keys() {
    let amount = AmountSpec::Data { up_bytes: 5_000_000, down_bytes: 0 };
    let stream = StreamSpec { stream_id: 0, after: None, amount };
    let (mut client, mut server) = (endpoint(Side::Client), endpoint(Side::Server));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    client.connect(Time::ZERO, Some(Box::new(PerfClient::new(&[stream]))), &mut up).unwrap();
    let (mut now, mut full, mut whole) = (Time::ZERO, 0, 0);
    while server.streams().first().is_none_or(|(_, stream)| stream.received_in_order < 5_000_000) {
        now += Span::from_millis(1);
        assert!(now < Time(3_600_000_000_000), "{full} packets");
        for payload in up.drain(..) {
            if let Payload::Datagram(datagram) = &payload
                && datagram.payload_bytes() == 1252
                && datagram.first_byte() & 0x80 == 0
            {
                full += 1;
                whole += usize::from(datagram.kept_bytes() > 1252 / 12);
            }
            server.receive(now, payload, &mut down);
        }
        down.drain(..).for_each(|payload| client.receive(now, payload, &mut up));
        if client.wake_at() <= now {
            client.wake(now, &mut up);
        }
        if server.wake_at() <= now {
            server.wake(now, &mut down);
        }
    }
    // One has the connection ids to come (RFC 9000 section 19.15) before its stream.
    assert!(full > 3000 && whole <= 1, "{whole} of {full} packets are kept to more than a twelfth");
}

//! Connections are told apart however many there were, and leave their places.

use bytes::BytesMut;
use units::{Span, Time};

use super::dial::Limits;
use super::endpoint::address;
use super::outlet::Packets;
use super::{Arrival, Endpoint, QuicSpec};
use crate::load::{PerfClient, PerfServer};
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
    let config = cc::Config {
        mss: 1252,
        initial_window: 12_520,
        initial_rtt: Span::from_millis(100),
        seed: 1,
        paced: true,
    };
    let controller = move || cc::build("newreno", &serde_json::json!({}), &config).unwrap();
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

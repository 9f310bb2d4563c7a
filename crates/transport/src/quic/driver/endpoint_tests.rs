//! Connections stay distinct at any count, and release their capacity.

use bytes::BytesMut;
use units::{Span, Time};

use super::endpoint::connect::ServerLimits;
use super::{ConnectionDriver, EndpointDriver};
use crate::perf_load::{AmountSpec, PerfClient, PerfServer, StreamSpec};
use crate::quic::QuicSpec;
use crate::quic::datagram_sink::SimulatedSink;
use crate::quic::quinn::Quinn;
use crate::quic::simulated_address::simulated_address;
use crate::quic::stack::InboundDatagram;
use crate::{App, Payload, Side};

pub(super) fn endpoint(side: Side) -> EndpointDriver<Quinn> {
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
    EndpointDriver::new(side, &spec, 1, side.name(), Box::new(app), Box::new(controller)).unwrap()
}

#[test]
fn the_65_537th_connection_is_distinct() {
    let (mut client, mut server) = (endpoint(Side::Client), endpoint(Side::Server));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for opened in [0, 1 << 16] {
        client.stats.opened = opened;
        client.connect(Time::ZERO, None, &mut up).unwrap();
    }
    for _ in 0..4 {
        up.drain(..).for_each(|payload| server.receive(Time::ZERO, payload, &mut down));
        down.drain(..).for_each(|payload| client.receive(Time::ZERO, payload, &mut up));
    }
    for side in [&client, &server] {
        let live: Vec<_> =
            side.live_connections().map(|one| (one.number(), one.connected_at())).collect();
        assert_eq!(live, [(0, Some(Time::ZERO)), (1 << 16, Some(Time::ZERO))]);
    }
}

/// Passes all datagrams and polls once, as a driver of sockets does.
fn feed(server: &mut EndpointDriver<Quinn>, payloads: &mut Vec<Payload>, out: &mut Vec<Payload>) {
    let mut packets = SimulatedSink::new(out, 28);
    for payload in payloads.drain(..) {
        let Payload::Datagram(datagram) = payload else { continue };
        let data = BytesMut::from(&*datagram.payload());
        let remote = simulated_address(datagram.connection);
        let arrival = InboundDatagram { remote, local: None, ecn: datagram.ecn, data };
        server.push(Time::ZERO, arrival, &mut packets);
    }
    server.poll_all(Time::ZERO, &mut packets);
}

#[test]
fn a_close_frees_capacity_in_the_same_turn() {
    let (mut client, mut server) = (endpoint(Side::Client), endpoint(Side::Server));
    server.limits =
        Some(ServerLimits { max_connections: 1, handshakes_before_retry: 1000, evict_slow: false });
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for turn in 0..2 {
        client.connect(Time::ZERO, None, &mut up).unwrap();
        for _ in 0..4 {
            feed(&mut server, &mut up, &mut down);
            down.drain(..).for_each(|payload| client.receive(Time::ZERO, payload, &mut up));
        }
        let open: Vec<_> = server.live_connections().filter(|one| !one.is_closed()).collect();
        assert_eq!(open.len(), 1, "turn {turn}");
        assert!(open[0].connected_at().is_some(), "turn {turn}");
        client.close(Time::ZERO, &mut SimulatedSink::new(&mut up, 28));
    }
}

/// RFC 9000 section 10.2.2: the state of a connection is discarded when the peer has closed it. Late packets are still
/// ignored for three PTOs. After that a reset answers them (section 10.3).
#[test]
fn a_connection_closed_by_the_peer_is_discarded_and_ignores_late_packets() {
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
    let known = |endpoint: &EndpointDriver<Quinn>, number| {
        endpoint.connection(number).map(ConnectionDriver::number)
    };
    assert_eq!([0, 1, 2].map(|number| known(&server, number)), [Some(0), Some(1), None]);
    client.close(Time(3), &mut SimulatedSink::new(&mut up, 28));
    seen.extend(up.iter().cloned());
    up.drain(..).for_each(|payload| server.receive(Time(3), payload, &mut down));
    assert_eq!(server.live_connections().count(), 1, "the last is still to be looked at");
    let before = (server.gauges(), server.counters(), server.completed());
    server.poll(Time(4), &mut down);
    assert_eq!(
        (server.live_connections().count(), known(&server, 0), known(&server, 1)),
        (0, None, None)
    );
    assert!(server.gauges().cwnd > 0 && server.controller().is_some());
    assert_eq!((server.gauges(), server.counters(), server.completed()), before);
    down.clear();
    for payload in &seen {
        server.receive(Time(5), payload.clone(), &mut down);
    }
    assert!(down.is_empty() && server.live_connections().count() == 0, "late packets");
    let until = server.poll_at();
    assert!(until > Time(5) && until < Time::MAX);
    server.poll(until, &mut down);
    let drained = server.poll_at();
    assert!(drained == Time::MAX || drained > until);
    server.poll(Time(u64::MAX / 2), &mut down);
    assert_eq!((server.poll_at(), server.controller().is_none()), (Time::MAX, true));
    let last = seen.pop().unwrap();
    server.receive(Time(u64::MAX / 2), last, &mut down);
    assert_eq!(down.len(), 1, "a reset");
}

/// The stack updates its keys at packet 1,000 at the latest. Packets before and after are stored without zeros.
#[test]
fn stream_packets_store_a_twelfth_across_key_updates() {
    let amount = AmountSpec::Data { up_bytes: 5_000_000, down_bytes: 0 };
    let stream = StreamSpec { stream_id: 0, after: None, amount };
    let (mut client, mut server) = (endpoint(Side::Client), endpoint(Side::Server));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    client.connect(Time::ZERO, Some(Box::new(PerfClient::new(&[stream]))), &mut up).unwrap();
    let (mut now, mut full, mut whole) = (Time::ZERO, 0, 0);
    while server
        .stream_reports()
        .first()
        .is_none_or(|(_, stream)| stream.received_in_order < 5_000_000)
    {
        now += Span::from_millis(1);
        assert!(now < Time(3_600_000_000_000), "{full} packets");
        for payload in up.drain(..) {
            if let Payload::Datagram(datagram) = &payload
                && datagram.payload_bytes() == 1252
                && datagram.first_byte() & 0x80 == 0
            {
                full += 1;
                whole += usize::from(datagram.stored_bytes() > 1252 / 12);
            }
            server.receive(now, payload, &mut down);
        }
        down.drain(..).for_each(|payload| client.receive(now, payload, &mut up));
        if client.poll_at() <= now {
            client.poll(now, &mut up);
        }
        if server.poll_at() <= now {
            server.poll(now, &mut down);
        }
    }
    // One packet has NEW_CONNECTION_ID frames (RFC 9000 section 19.15) before its stream.
    assert!(full > 3000 && whole <= 1, "{whole} of {full} packets are kept to more than a twelfth");
}

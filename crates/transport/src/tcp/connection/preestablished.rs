//! Connections established before the run: the pool of a proxy.

use cc::CongestionControl;
use units::{Span, Time};

use super::TcpConnection;
use crate::tcp::rtt::Rtt;
use crate::tcp::{Segment, TcpSpec};
use crate::{FlowCounters, Payload};

/// Returns two ends of connection `number` of a flow, for the pool of a proxy. They completed the handshake before the
/// run over a path of round-trip time `rtt`, and were idle since.
pub fn preestablished_pair(
    now: Time,
    specs: [&TcpSpec; 2],
    controllers: [Box<dyn CongestionControl>; 2],
    rtt: Span,
    number: u32,
) -> (TcpConnection, TcpConnection) {
    let [near, far] = specs;
    let [client_controller, server_controller] = controllers;
    let mut client = TcpConnection::connect(
        now,
        &TcpSpec { fast_open: false, ..near.clone() },
        client_controller,
        number,
    );
    let mut sent = Vec::new();
    client.transmit(now, &mut sent);
    let syn = take(&mut sent);
    let mut server = TcpConnection::accept(
        now,
        &TcpSpec { fast_open: false, ..far.clone() },
        server_controller,
        &syn,
        false,
    );
    server.transmit(now, &mut sent);
    client.receive(now, take(&mut sent));
    client.transmit(now, &mut sent);
    server.receive(now, take(&mut sent));
    for connection in [&mut client, &mut server] {
        // The handshake had no delays: its samples and packets are removed.
        connection.sender.rtt = Rtt::new(&connection.spec);
        connection.sender.rtt.set_latest(rtt);
        connection.sender.rtt.sample(rtt, 1, 1);
        connection.sender.on_established(now);
        connection.receiver.init_timestamps(now, None);
        connection.sent_counters = FlowCounters::default();
        connection.events.clear();
    }
    (client, server)
}

fn take(sent: &mut Vec<Payload>) -> Segment {
    match sent.pop() {
        Some(Payload::Segment(segment)) => segment,
        other => unreachable!("a handshake answers every segment: {other:?}"),
    }
}

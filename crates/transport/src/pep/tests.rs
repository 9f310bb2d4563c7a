//! A proxy between two connections without a path: resets, refusals, half-closed connections, bounds.

use bytes::Bytes;
use cc::CongestionControl;
use serde_json::json;
use units::{Span, Time};

use super::{HandshakeMode, Proxy, ProxyConfig, ProxySpec, SocketSpec};
use crate::tcp::{Flags, Segment, TcpConnection, TcpSpec};
use crate::{Node, Payload, Probe, Side};

const NUMBER: u32 = 1024;

fn tcp(receive_buffer_bytes: u64) -> TcpSpec {
    TcpSpec {
        delayed_ack: None,
        restart_after_idle: false,
        receive_buffer_bytes,
        send_buffer_bytes: receive_buffer_bytes,
        ..TcpSpec::default()
    }
}

fn controller() -> Box<dyn CongestionControl> {
    let config = cc::ControllerConfig {
        mss: 1448,
        initial_window: 14_600,
        initial_rtt: Span::from_millis(333),
        seed: 1,
        is_paced: false,
    };
    cc::build_controller("newreno", &json!(null), &config).unwrap()
}

/// A client, a proxy and a server, connected directly.
struct Three {
    now: Time,
    client: TcpConnection,
    proxy: Proxy,
    server: Option<TcpConnection>,
    /// The server refuses a SYN.
    refuses: bool,
    /// The proxy's segments towards the server are lost.
    cut: bool,
}

impl Three {
    fn new(setup: HandshakeMode, buffer_bytes: u64) -> Three {
        let socket =
            SocketSpec { tcp: tcp(20_000), congestion: "newreno".into(), options: json!(null) };
        let spec = ProxySpec {
            node: "p".into(),
            handshake: setup,
            buffer_bytes,
            client_side: socket.clone(),
            server_side: socket,
        };
        let make = || -> crate::ControllerBuilder { Box::new(controller) };
        let parts = ProxyConfig {
            spec,
            build_controllers: [make(), make()],
            inbound_pool: None,
            outbound_pool: None,
        };
        Three {
            now: Time::ZERO,
            client: TcpConnection::connect(Time::ZERO, &tcp(1 << 20), controller(), NUMBER),
            proxy: Proxy::new(parts),
            server: None,
            refuses: false,
            cut: false,
        }
    }

    fn refuse(segment: &Segment) -> Segment {
        let flags = Flags::RST.with(Flags::ACK);
        Segment { flags, syn: None, acknowledgement: segment.end(), sequence: 0, ..segment.clone() }
    }

    /// Exchanges segments and runs timers for `seconds`.
    fn run(&mut self, seconds: u64) {
        let end = self.now + Span::from_secs(seconds);
        let mut out = [Vec::new(), Vec::new()];
        while self.now <= end {
            let mut sent = Vec::new();
            self.client.transmit(self.now, &mut sent);
            for payload in sent.drain(..) {
                let Payload::Segment(segment) = payload else { continue };
                self.proxy.receive(
                    self.now,
                    Side::Client as usize,
                    Payload::Segment(segment),
                    &mut out,
                );
            }
            if let Some(server) = &mut self.server {
                server.transmit(self.now, &mut sent);
            }
            for payload in sent.drain(..) {
                let Payload::Segment(segment) = payload else { continue };
                self.proxy.receive(
                    self.now,
                    Side::Server as usize,
                    Payload::Segment(segment),
                    &mut out,
                );
            }
            let [down, up] = &mut out;
            let busy = !down.is_empty() || !up.is_empty();
            for payload in down.drain(..) {
                let Payload::Segment(segment) = payload else { continue };
                self.client.receive(self.now, segment);
            }
            let mut refusals = Vec::new();
            for payload in up.drain(..).filter(|_| !self.cut) {
                let Payload::Segment(segment) = payload else { continue };
                match &mut self.server {
                    Some(server) => server.receive(self.now, segment),
                    None if self.refuses => refusals.push(Three::refuse(&segment)),
                    None => {
                        let (spec, held) = (tcp(20_000), false);
                        self.server = Some(TcpConnection::accept(
                            self.now,
                            &spec,
                            controller(),
                            &segment,
                            held,
                        ));
                    }
                }
            }
            for segment in refusals {
                self.proxy.receive(
                    self.now,
                    Side::Server as usize,
                    Payload::Segment(segment),
                    &mut out,
                );
            }
            if busy {
                continue;
            }
            let server = self.server.as_ref().map_or(Time::MAX, TcpConnection::poll_at);
            let next = self.client.poll_at().min(server).min(self.proxy.poll_at());
            if next > end {
                self.now = end;
                break;
            }
            self.now = next.max(self.now);
            self.client.poll(self.now);
            if let Some(server) = &mut self.server {
                server.poll(self.now);
            }
            self.proxy.poll(self.now, &mut out);
        }
    }

    fn server(&mut self) -> &mut TcpConnection {
        self.server.as_mut().expect("the SYN has come")
    }
}

fn drain(connection: &mut TcpConnection) -> usize {
    std::iter::from_fn(|| connection.read()).map(|data| data.len()).sum()
}

#[test]
fn a_reset_is_forwarded_in_both_directions() {
    for setup in [HandshakeMode::Relayed, HandshakeMode::Early] {
        let mut three = Three::new(setup, 20_000);
        three.run(1);
        assert!(three.client.is_established() && three.server().is_established(), "{setup:?}");
        three.client.reset();
        three.run(1);
        assert!(three.server().was_reset(), "{setup:?}");
        let mut three = Three::new(setup, 20_000);
        three.client.write(Bytes::from_static(&[7; 5000]));
        three.run(1);
        assert_eq!(drain(three.server()), 5000);
        three.server().reset();
        three.run(1);
        assert!(three.client.was_reset(), "{setup:?}");
        assert_eq!(three.proxy.poll_at(), Time::MAX, "nothing is left to do");
    }
}

#[test]
fn a_refusing_or_silent_server_ends_the_client_connection() {
    for (setup, refuses) in [
        (HandshakeMode::Relayed, true),
        (HandshakeMode::Early, true),
        (HandshakeMode::Relayed, false),
        (HandshakeMode::Early, false),
    ] {
        let mut three = Three::new(setup, 20_000);
        (three.refuses, three.cut) = (refuses, !refuses);
        three.run(600);
        assert!(three.client.is_aborted(), "{setup:?}, refuses: {refuses}");
    }
}

#[test]
fn each_direction_closes_independently() {
    let mut three = Three::new(HandshakeMode::Early, 20_000);
    three.client.write(Bytes::from_static(&[1; 3000]));
    three.client.finish();
    three.run(1);
    assert_eq!(drain(three.server()), 3000);
    assert!(three.server().peer_finished());
    three.run(10);
    three.server().write(Bytes::from_static(&[2; 9000]));
    three.run(1);
    assert_eq!(drain(&mut three.client), 9000);
    assert!(!three.client.peer_finished() && !three.client.is_closed());
    three.server().finish();
    three.run(1);
    assert!(three.client.is_closed() && three.server().is_closed());
    assert_eq!(three.proxy.poll_at(), Time::MAX);
    // Counters stay after connections have ended and expired.
    let sent =
        |proxy: &Proxy| super::proxy::SIDES.map(|side| proxy.counters(side as usize).written_bytes);
    assert_eq!(sent(&three.proxy), [9000, 3000]);
    three.now += Span::from_secs(100);
    three.proxy.expire_lingering(three.now);
    assert_eq!(sent(&three.proxy), [9000, 3000]);
}

#[test]
fn buffered_bytes_are_bounded_without_a_reader() {
    let mut three = Three::new(HandshakeMode::Early, 10_000);
    three.client.write(Bytes::from(vec![3; 500_000]));
    three.run(5);
    let waiting = three.proxy.waiting_bytes(Side::Server as usize);
    assert!(waiting <= 10_000 && waiting > 10_000 - 2 * 1460, "{waiting} bytes wait");
    // The server's receive buffer, then the proxy's send buffer, relay buffer and receive buffer.
    let all = 20_000 + 20_000 + 10_000 + 20_000;
    let sent = 500_000 - three.client.unsent();
    assert!(sent <= all && sent > all - 4 * 1460, "{sent} of {all}");
    let mut received = 0;
    while received < 500_000 {
        let got = drain(three.server());
        received += got;
        three.run(1);
        assert!(three.proxy.waiting_bytes(Side::Server as usize) <= 10_000);
        assert!(three.now < Time::ZERO + Span::from_secs(600), "{received} bytes came");
    }
    assert_eq!(received, 500_000);
}

#[test]
fn counters_survive_reuse_of_a_lingering_number() {
    let mut three = Three::new(HandshakeMode::Early, 20_000);
    let sent =
        |proxy: &Proxy| super::proxy::SIDES.map(|side| proxy.counters(side as usize).written_bytes);
    for (round, bytes) in [3000, 5000].into_iter().enumerate() {
        if round > 0 {
            three.client = TcpConnection::connect(three.now, &tcp(1 << 20), controller(), NUMBER);
            three.server = None;
        }
        three.client.write(Bytes::from(vec![1; bytes]));
        three.client.finish();
        three.run(1);
        assert_eq!(drain(three.server()), bytes);
        three.server().finish();
        three.run(20);
        assert!(three.client.is_closed() && three.server().is_closed());
    }
    assert_eq!(sent(&three.proxy), [0, 8000]);
    assert_eq!(three.proxy.opened(Side::Client as usize), 2);
    // The first connection expires after 60 s, while the second still answers late segments.
    three.run(30);
    three.proxy.expire_lingering(three.now);
    let mut out = [Vec::new(), Vec::new()];
    let mut late = Segment::from_data(1, Bytes::from_static(b"late"));
    (late.connection, late.flags) = (NUMBER, Flags::ACK);
    three.proxy.receive(three.now, Side::Client as usize, Payload::Segment(late), &mut out);
    assert!(!out[0].is_empty(), "the second connection is still known");
    three.now += Span::from_secs(100);
    three.proxy.expire_lingering(three.now);
    assert_eq!(sent(&three.proxy), [0, 8000]);
}

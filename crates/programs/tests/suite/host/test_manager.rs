//! A connection manager for tests, which opens connections and counts events, and hosts that are polled in turn.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use runtime::host::{
    ConnectionTimeouts, Host, HostSocketConfig, QuicHostConfig, TcpHostConfig, TcpProtocol,
    TcpSocketOptions, TlsKeys,
};
use runtime::{BatchedUdpSocket, tls};
use transport::quic::{CloseReason, QuicRequirements, QuicSpec, TlsConfig};
use transport::{
    App, AppCommand, AppNotification, ConnectionControl, ConnectionKey, ConnectionManager,
    ControllerBuilder,
};
use units::{Span, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Quic,
    Tcp,
}

pub type BuildAppFn = Box<dyn FnMut() -> Box<dyn App> + Send>;

pub struct TestManager {
    make: BuildAppFn,
    pending_connects: Vec<(usize, String, Box<dyn App>)>,
    pokes: Vec<ConnectionKey>,
    next: Vec<u32>,
    pub handles: Vec<ConnectionKey>,
    pub accepted: Vec<ConnectionKey>,
    pub notification_count: usize,
    pub closed_count: usize,
    pub close_reasons: Vec<CloseReason>,
}

impl TestManager {
    /// Queues a connection for the next poll.
    pub fn queue_connect(&mut self, end: usize, peer: &str, app: Box<dyn App>) -> ConnectionKey {
        self.pending_connects.push((end, peer.to_owned(), app));
        self.next.resize(self.next.len().max(end + 1), 0);
        let connection = self.next[end];
        self.next[end] += 1;
        ConnectionKey { interface: end, connection }
    }

    /// Sends a command to all accepted applications.
    pub fn poke_all(&mut self) {
        self.pokes = self.accepted.clone();
    }
}

impl ConnectionManager for TestManager {
    fn on_accept(&mut self, _now: Time, handle: ConnectionKey) -> Box<dyn App> {
        self.accepted.push(handle);
        (self.make)()
    }

    fn on_app_notification(&mut self, _now: Time, _handle: ConnectionKey, notice: AppNotification) {
        assert_eq!(notice, AppNotification::Ready);
        self.notification_count += 1;
    }

    fn on_close(&mut self, _now: Time, _handle: ConnectionKey, end: &CloseReason) {
        self.closed_count += 1;
        self.close_reasons.push(end.clone());
    }

    fn poll(&mut self, _now: Time, lines: &mut dyn ConnectionControl) {
        for (end, peer, app) in self.pending_connects.drain(..) {
            self.handles.push(lines.connect(end, &peer, app).unwrap());
        }
        for handle in self.pokes.drain(..) {
            lines.send_command(handle, AppCommand::Request(0));
        }
    }

    fn poll_at(&mut self) -> Time {
        if self.pending_connects.is_empty() && self.pokes.is_empty() {
            Time::MAX
        } else {
            Time::ZERO
        }
    }
}

pub fn controller() -> ControllerBuilder {
    let config = cc::ControllerConfig {
        mss: 1448,
        initial_window: 14_480,
        initial_rtt: Span::from_millis(100),
        seed: 1,
        is_paced: true,
    };
    Box::new(move || cc::build_controller("cubic", &serde_json::json!({}), &config).unwrap())
}

pub fn keys() -> TlsKeys {
    let (server, _) = tls::server_config(None).unwrap();
    let (client, _) =
        tls::client_config(tls::PERF_ALPN, tls::ServerVerification::AcceptAny).unwrap();
    TlsKeys { client: Arc::new(client), server: Arc::new(server), expected_peer: None }
}

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub fn quic_socket(connections: usize) -> HostSocketConfig {
    let TlsKeys { client, server, .. } = keys();
    let spec = QuicSpec {
        receive_window_bytes: 1 << 20,
        stream_receive_window_bytes: 1 << 20,
        send_window_bytes: 1 << 20,
        idle_timeout_ns: Some(5_000_000_000),
        initial_rtt_ns: 100_000_000,
        unpaced_burst_packets: 10,
        ..QuicSpec::default()
    };
    let tls = TlsConfig::ClientAndServer(client, server);
    let socket = BatchedUdpSocket::bind(any_port(), None).unwrap();
    HostSocketConfig::Quic(Box::new(QuicHostConfig {
        requirements: QuicRequirements { max_bidi_streams: Some(8), ..QuicRequirements::default() },
        max_connections: connections,
        max_handshakes: 64,
        ..QuicHostConfig::new(socket, tls, spec, controller())
    }))
}

pub fn tcp_socket(connections: usize, keys: Option<TlsKeys>) -> HostSocketConfig {
    let options =
        TcpSocketOptions { congestion: "cubic".to_owned(), mss: None, buffer: Some(1 << 20) };
    let timeouts =
        ConnectionTimeouts { handshake: Span::from_secs(2), idle: Some(Span::from_secs(3)) };
    let listener = options.listen(any_port()).unwrap();
    HostSocketConfig::Tcp(TcpHostConfig {
        protocol: TcpProtocol::Plain(keys),
        ..TcpHostConfig::new(Some(listener), options, timeouts, connections)
    })
}

pub fn host_of(ends: Vec<HostSocketConfig>, make: BuildAppFn) -> Host<TestManager> {
    let party = TestManager {
        make,
        pending_connects: Vec::new(),
        pokes: Vec::new(),
        next: Vec::new(),
        handles: Vec::new(),
        accepted: Vec::new(),
        notification_count: 0,
        closed_count: 0,
        close_reasons: Vec::new(),
    };
    Host::new(party, ends).unwrap()
}

pub fn host(
    kind: Kind,
    connections: usize,
    make: impl FnMut() -> Box<dyn App> + Send + 'static,
) -> Host<TestManager> {
    let end = match kind {
        Kind::Quic => quic_socket(connections),
        Kind::Tcp => tcp_socket(connections, None),
    };
    host_of(vec![end], Box::new(make))
}

/// Polls the hosts until `done`, for at most `seconds`.
pub fn run_hosts(
    hosts: &mut [&mut Host<TestManager>],
    seconds: f64,
    mut done: impl FnMut(&[&mut Host<TestManager>]) -> bool,
) {
    let until = hosts[0].now() + Span::from_seconds(seconds);
    loop {
        for host in &mut *hosts {
            let soon = host.now() + Span::from_millis(1);
            host.poll_once(soon).unwrap();
        }
        if done(hosts) {
            return;
        }
        assert!(hosts[0].now() < until, "it takes longer than {seconds} s");
    }
}

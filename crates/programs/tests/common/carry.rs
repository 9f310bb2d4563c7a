//! Two minimal nodes: one sends bundles over a convergence layer, the other stores and counts them.

#![allow(dead_code, reason = "no test program uses all items")]

use std::net::Ipv4Addr;
use std::sync::Arc;

use bundle::cla::{ClaSpec, ConnectionParameters, TlsPolicy};
use bundle::{DeliveryMode, SessionCommand, SessionEvent, Transfer};
use bytes::Bytes;
use programs::dtn::{ClaEndpoint, Sessions};
use runtime::host::{
    ConnectionTimeouts, Host, HostSocketConfig, QuicHostConfig, TcpHostConfig, TcpProtocol,
    TcpSocketOptions, TlsKeys,
};
use runtime::{BatchedUdpSocket, tls};
use transport::quic::{CloseReason, QuicSpec, TlsConfig};
use transport::{
    App, AppNotification, ConnectionControl, ConnectionKey, ConnectionManager, ControllerBuilder,
};
use units::{Span, Time};

/// Sends a number of bundles with a limit of concurrent transfers and counts the outcomes. It stores received bundles.
pub struct Carrying {
    pub sessions: Sessions,
    dials: bool,
    session: Option<u64>,
    pub to_send: u64,
    at_once: u64,
    bundle: Bytes,
    given: u64,
    pub accepted: u64,
    pub durable: u64,
    pub received: u64,
    pub wrong: u64,
    pub over: Vec<Option<String>>,
    due: bool,
}

impl Carrying {
    fn work(&mut self, now: Time, lines: &mut dyn ConnectionControl) {
        if std::mem::take(&mut self.dials) {
            self.session = Some(self.sessions.connect(now, 0, lines));
        }
        self.sessions.take_accepted();
        for (session, event) in self.sessions.take_events() {
            match event {
                SessionEvent::Acknowledged { durable, .. } => {
                    self.accepted += 1;
                    self.durable += u64::from(durable);
                }
                SessionEvent::Received { id, data, .. } => {
                    self.received += 1;
                    self.wrong += u64::from(data.concat() != self.bundle);
                    self.sessions.send_command(
                        now,
                        session,
                        SessionCommand::ConfirmStored(id),
                        lines,
                    );
                }
                SessionEvent::Closed { error } => self.over.push(error),
                SessionEvent::Refused { reason: why, .. } => panic!("refused: {why:?}"),
                SessionEvent::Established { .. } | SessionEvent::Transmitted(_) => {}
            }
        }
        let Some(session) = self.session else { return };
        while self.given < self.to_send && self.given - self.accepted < self.at_once {
            let transfer = Transfer {
                id: self.given,
                data: vec![self.bundle.clone()],
                mode: DeliveryMode::Reliable,
                priority: 1,
            };
            self.given += 1;
            self.sessions.send_command(now, session, SessionCommand::Send(transfer), lines);
        }
    }

    pub fn end(&mut self) {
        self.due = true;
        self.at_once = u64::MAX;
    }
}

impl ConnectionManager for Carrying {
    fn on_accept(&mut self, now: Time, handle: ConnectionKey) -> Box<dyn App> {
        self.sessions.on_accept(now, handle)
    }

    fn on_app_notification(&mut self, now: Time, handle: ConnectionKey, _notice: AppNotification) {
        self.sessions.on_app_event(now, handle);
        self.due = true;
    }

    fn on_close(&mut self, now: Time, handle: ConnectionKey, end: &CloseReason) {
        let why = match end {
            CloseReason::Lost(why) => Some(why.clone()),
            CloseReason::Local | CloseReason::Peer => None,
        };
        self.sessions.on_close(now, handle, why);
        self.due = true;
    }

    fn poll(&mut self, now: Time, lines: &mut dyn ConnectionControl) {
        self.due = false;
        self.work(now, lines);
    }

    fn poll_at(&mut self) -> Time {
        if self.due { Time::ZERO } else { Time::MAX }
    }
}

fn controller(name: &'static str) -> ControllerBuilder {
    let config = cc::ControllerConfig {
        mss: 1452,
        initial_window: 14_520,
        initial_rtt: Span::from_millis(10),
        seed: 1,
        is_paced: true,
    };
    Box::new(move || cc::build_controller(name, &serde_json::json!({}), &config).unwrap())
}

fn keys() -> TlsKeys {
    let (mut server, _) = tls::server_config(None).unwrap();
    let (mut client, _) = tls::client_config("", tls::ServerVerification::AcceptAny).unwrap();
    (client.alpn_protocols, server.alpn_protocols) = (Vec::new(), Vec::new());
    TlsKeys { client: Arc::new(client), server: Arc::new(server), expected_peer: None }
}

fn end(layer: &ClaSpec) -> HostSocketConfig {
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let Some(needs) = layer.quic_requirements() else {
        let options = TcpSocketOptions { congestion: "cubic".to_owned(), mss: None, buffer: None };
        let timeouts =
            ConnectionTimeouts { handshake: Span::from_secs(5), idle: Some(Span::from_secs(10)) };
        let listener = options.listen(listen).unwrap();
        return HostSocketConfig::Tcp(TcpHostConfig {
            protocol: TcpProtocol::Plain((layer.tls_policy() != TlsPolicy::No).then(keys)),
            ..TcpHostConfig::new(Some(listener), options, timeouts, 16)
        });
    };
    let alpn = layer.alpn().unwrap();
    let (mut server, _) = tls::server_config(None).unwrap();
    server.alpn_protocols = vec![alpn.into()];
    let (client, _) = tls::client_config(alpn, tls::ServerVerification::AcceptAny).unwrap();
    let spec = QuicSpec {
        receive_window_bytes: 16 << 20,
        stream_receive_window_bytes: 16 << 20,
        send_window_bytes: 16 << 20,
        idle_timeout_ns: Some(10_000_000_000),
        initial_rtt_ns: 10_000_000,
        unpaced_burst_packets: 10,
        ..QuicSpec::default()
    };
    let tls = TlsConfig::ClientAndServer(Arc::new(client), Arc::new(server));
    let socket = BatchedUdpSocket::bind(listen, None).unwrap();
    HostSocketConfig::Quic(Box::new(QuicHostConfig {
        requirements: needs,
        max_connections: 16,
        max_handshakes: 64,
        ..QuicHostConfig::new(socket, tls, spec, controller("cubic"))
    }))
}

/// Creates a node that listens on a free port, and sends `bundles` of `bytes` to `peer` if given.
pub fn node(layer: &ClaSpec, peer: Option<String>, bundles: u64, bytes: usize) -> Host<Carrying> {
    node_with(layer, peer, bundles, bytes, ConnectionParameters::default())
}

/// Creates a node like `node`, with these connection parameters.
pub fn node_with(
    layer: &ClaSpec,
    peer: Option<String>,
    bundles: u64,
    bytes: usize,
    terms: ConnectionParameters,
) -> Host<Carrying> {
    let dials = peer.is_some();
    let name = if dials { "ipn:1.0" } else { "ipn:2.0" };
    let plan = end(layer);
    let gate = ClaEndpoint { cla: layer.clone(), peer, parameters: terms };
    let payload: Vec<u8> = (0..bytes).map(|index| (index % 253) as u8).collect();
    let carrying = Carrying {
        sessions: Sessions::new(name, vec![gate]),
        dials,
        session: None,
        to_send: bundles,
        at_once: 32,
        bundle: payload.into(),
        given: 0,
        accepted: 0,
        durable: 0,
        received: 0,
        wrong: 0,
        over: Vec::new(),
        due: dials,
    };
    Host::new(carrying, vec![plan]).unwrap()
}

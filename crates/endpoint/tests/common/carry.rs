//! Two nodes without a mind: one sends bundles over a convergence layer, the other stores and counts them.

#![allow(dead_code, reason = "no test uses all of it")]

use std::net::Ipv4Addr;
use std::sync::Arc;

use bundle::layers::{LayerSpec, Terms, TlsPolicy};
use bundle::{Said, Service, Told, Transfer};
use bytes::Bytes;
use endpoint::dtn::{Gate, Sessions};
use endpoint::host::{EndPlan, Host, Keys, Patience, QuicPlan, TcpOptions, TcpPlan};
use endpoint::tls;
use transport::quic::{End, LiveTls, QuicSpec};
use transport::{Agent, App, Handle, Lines, MakeController, Notice};
use units::{Span, Time};

/// Sends so many bundles, so many at once, and counts what has become of them; what comes it stores.
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
    fn work(&mut self, now: Time, lines: &mut dyn Lines) {
        if std::mem::take(&mut self.dials) {
            self.session = Some(self.sessions.dial(now, 0, lines));
        }
        self.sessions.take_met();
        for (session, said) in self.sessions.take_said() {
            match said {
                Said::Accepted { durable, .. } => {
                    self.accepted += 1;
                    self.durable += u64::from(durable);
                }
                Said::Received { id, data, .. } => {
                    self.received += 1;
                    self.wrong += u64::from(data.concat() != self.bundle);
                    self.sessions.tell(now, session, Told::Stored(id), lines);
                }
                Said::Ended { error } => self.over.push(error),
                Said::Refused { why, .. } => panic!("refused: {why:?}"),
                Said::Started { .. } | Said::Sent(_) => {}
            }
        }
        let Some(session) = self.session else { return };
        while self.given < self.to_send && self.given - self.accepted < self.at_once {
            let transfer = Transfer {
                id: self.given,
                data: vec![self.bundle.clone()],
                service: Service::Reliable,
                priority: 1,
            };
            self.given += 1;
            self.sessions.tell(now, session, Told::Send(transfer), lines);
        }
    }

    pub fn end(&mut self) {
        self.due = true;
        self.at_once = u64::MAX;
    }
}

impl Agent for Carrying {
    fn accept(&mut self, now: Time, handle: Handle) -> Box<dyn App> {
        self.sessions.accept(now, handle)
    }

    fn hear(&mut self, now: Time, handle: Handle, _notice: Notice) {
        self.sessions.hear(now, handle);
        self.due = true;
    }

    fn ended(&mut self, now: Time, handle: Handle, end: &End) {
        let why = match end {
            End::Lost(why) => Some(why.clone()),
            End::Here | End::There => None,
        };
        self.sessions.ended(now, handle, why);
        self.due = true;
    }

    fn wake(&mut self, now: Time, lines: &mut dyn Lines) {
        self.due = false;
        self.work(now, lines);
    }

    fn wake_at(&mut self) -> Time {
        if self.due { Time::ZERO } else { Time::MAX }
    }
}

fn controller(name: &'static str) -> MakeController {
    let config = cc::ControllerConfig {
        mss: 1452,
        initial_window: 14_520,
        initial_rtt: Span::from_millis(10),
        seed: 1,
        is_paced: true,
    };
    Box::new(move || cc::build_controller(name, &serde_json::json!({}), &config).unwrap())
}

fn keys() -> Keys {
    let (mut server, _) = tls::server(None).unwrap();
    let (mut client, _) = tls::client("", tls::Trust::Anyone).unwrap();
    (client.alpn_protocols, server.alpn_protocols) = (Vec::new(), Vec::new());
    Keys { client: Arc::new(client), server: Arc::new(server), expected: None }
}

fn end(layer: &LayerSpec) -> EndPlan {
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let Some(needs) = layer.needs() else {
        return EndPlan::Tcp(TcpPlan {
            listen: Some(listen),
            options: TcpOptions { congestion: "cubic".to_owned(), mss: None, buffer: None },
            keys: (layer.tls() != TlsPolicy::No).then(keys),
            patience: Patience { handshake: Span::from_secs(5), idle: Some(Span::from_secs(10)) },
            connections: 16,
        });
    };
    let alpn = layer.alpn().unwrap();
    let (mut server, _) = tls::server(None).unwrap();
    server.alpn_protocols = vec![alpn.into()];
    let (client, _) = tls::client(alpn, tls::Trust::Anyone).unwrap();
    let spec = QuicSpec {
        receive_window_bytes: 16 << 20,
        stream_receive_window_bytes: 16 << 20,
        send_window_bytes: 16 << 20,
        idle_timeout_ns: Some(10_000_000_000),
        initial_rtt_ns: 10_000_000,
        unpaced_burst_packets: 10,
        ..QuicSpec::default()
    };
    EndPlan::Quic(Box::new(QuicPlan {
        listen,
        tls: LiveTls::Both(Arc::new(client), Arc::new(server)),
        spec,
        needs,
        make_controller: controller("cubic"),
        connections: 16,
        handshakes: 64,
    }))
}

/// A node that answers at a port of its own, and sends `bundles` of `bytes` to `peer` if there is one.
pub fn node(layer: &LayerSpec, peer: Option<String>, bundles: u64, bytes: usize) -> Host<Carrying> {
    node_with(layer, peer, bundles, bytes, Terms::default())
}

/// The same on these terms.
pub fn node_with(
    layer: &LayerSpec,
    peer: Option<String>,
    bundles: u64,
    bytes: usize,
    terms: Terms,
) -> Host<Carrying> {
    let dials = peer.is_some();
    let name = if dials { "ipn:1.0" } else { "ipn:2.0" };
    let plan = end(layer);
    let gate = Gate { layer: layer.clone(), peer, terms };
    let payload: Vec<u8> = (0..bytes).map(|place| (place % 253) as u8).collect();
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

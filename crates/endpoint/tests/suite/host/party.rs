//! An agent that dials what it is told to and counts what it hears, and hosts that take turns.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use endpoint::host::{EndPlan, Host, Keys, Patience, QuicPlan, TcpOptions, TcpPlan};
use endpoint::tls;
use transport::quic::{End, LiveTls, Needs, QuicSpec};
use transport::{Agent, App, Handle, Lines, MakeController, Notice, Order};
use units::{Span, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Quic,
    Tcp,
}

pub type Make = Box<dyn FnMut() -> Box<dyn App> + Send>;

pub struct Party {
    make: Make,
    dials: Vec<(usize, String, Box<dyn App>)>,
    pokes: Vec<Handle>,
    next: Vec<u32>,
    pub handles: Vec<Handle>,
    pub accepted: Vec<Handle>,
    pub heard: usize,
    pub ended: usize,
    pub ends: Vec<End>,
}

impl Party {
    /// What is dialled in the next turn.
    pub fn dial(&mut self, end: usize, peer: &str, app: Box<dyn App>) -> Handle {
        self.dials.push((end, peer.to_owned(), app));
        self.next.resize(self.next.len().max(end + 1), 0);
        let connection = self.next[end];
        self.next[end] += 1;
        Handle { end, connection }
    }

    /// All applications that were accepted have their turn.
    pub fn poke_all(&mut self) {
        self.pokes = self.accepted.clone();
    }
}

impl Agent for Party {
    fn accept(&mut self, _now: Time, handle: Handle) -> Box<dyn App> {
        self.accepted.push(handle);
        (self.make)()
    }

    fn hear(&mut self, _now: Time, _handle: Handle, notice: Notice) {
        assert_eq!(notice, Notice::Ready);
        self.heard += 1;
    }

    fn ended(&mut self, _now: Time, _handle: Handle, end: &End) {
        self.ended += 1;
        self.ends.push(end.clone());
    }

    fn wake(&mut self, _now: Time, lines: &mut dyn Lines) {
        for (end, peer, app) in self.dials.drain(..) {
            self.handles.push(lines.dial(end, &peer, app).unwrap());
        }
        for handle in self.pokes.drain(..) {
            lines.say(handle, Order::Ask(0));
        }
    }

    fn wake_at(&mut self) -> Time {
        if self.dials.is_empty() && self.pokes.is_empty() { Time::MAX } else { Time::ZERO }
    }
}

pub fn controller() -> MakeController {
    let config = cc::ControllerConfig {
        mss: 1448,
        initial_window: 14_480,
        initial_rtt: Span::from_millis(100),
        seed: 1,
        is_paced: true,
    };
    Box::new(move || cc::build_controller("cubic", &serde_json::json!({}), &config).unwrap())
}

pub fn keys() -> Keys {
    let (server, _) = tls::server(None).unwrap();
    let (client, _) = tls::client(tls::PERF, tls::Trust::Anyone).unwrap();
    Keys { client: Arc::new(client), server: Arc::new(server), expected: None }
}

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub fn quic_end(connections: usize) -> EndPlan {
    let Keys { client, server, .. } = keys();
    let spec = QuicSpec {
        receive_window_bytes: 1 << 20,
        stream_receive_window_bytes: 1 << 20,
        send_window_bytes: 1 << 20,
        idle_timeout_ns: Some(5_000_000_000),
        initial_rtt_ns: 100_000_000,
        unpaced_burst_packets: 10,
        ..QuicSpec::default()
    };
    EndPlan::Quic(Box::new(QuicPlan {
        listen: any_port(),
        tls: LiveTls::Both(client, server),
        spec,
        needs: Needs { bidi_streams: Some(8), ..Needs::default() },
        make_controller: controller(),
        connections,
        handshakes: 64,
    }))
}

pub fn tcp_end(connections: usize, keys: Option<Keys>) -> EndPlan {
    EndPlan::Tcp(TcpPlan {
        listen: Some(any_port()),
        options: TcpOptions { congestion: "cubic".to_owned(), mss: None, buffer: Some(1 << 20) },
        keys,
        patience: Patience { handshake: Span::from_secs(2), idle: Some(Span::from_secs(3)) },
        connections,
    })
}

pub fn host_of(ends: Vec<EndPlan>, make: Make) -> Host<Party> {
    let party = Party {
        make,
        dials: Vec::new(),
        pokes: Vec::new(),
        next: Vec::new(),
        handles: Vec::new(),
        accepted: Vec::new(),
        heard: 0,
        ended: 0,
        ends: Vec::new(),
    };
    Host::new(party, ends).unwrap()
}

pub fn host(
    kind: Kind,
    connections: usize,
    make: impl FnMut() -> Box<dyn App> + Send + 'static,
) -> Host<Party> {
    let end = match kind {
        Kind::Quic => quic_end(connections),
        Kind::Tcp => tcp_end(connections, None),
    };
    host_of(vec![end], Box::new(make))
}

/// Gives hosts turns until `done`, for `seconds` at the most.
pub fn meet(
    hosts: &mut [&mut Host<Party>],
    seconds: f64,
    mut done: impl FnMut(&[&mut Host<Party>]) -> bool,
) {
    let until = hosts[0].now() + Span::from_seconds(seconds);
    loop {
        for host in &mut *hosts {
            let soon = host.now() + Span::from_millis(1);
            host.turn(soon).unwrap();
        }
        if done(hosts) {
            return;
        }
        assert!(hosts[0].now() < until, "it takes longer than {seconds} s");
    }
}

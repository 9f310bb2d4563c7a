//! Two nodes with only a store each, a session between them over QUIC or TCP in virtual time, and a path with constant
//! delay.

use bundle::cla::{ClaSpec, ConnectionParameters, LinkProperties};
use bundle::{DeliveryMode, Mailbox, Role, SessionApp, SessionCommand, SessionEvent, Transfer};
use bytes::Bytes;
use transport::quic::QuicSpec;
use transport::tcp::{TcpEndpoint, TcpSpec};
use transport::{
    App, AppBuilder, AppCommand, ControllerBuilder, Endpoint, Payload, Side, quic::QuicEndpoint,
};
use units::{Span, Time};

/// The one-way delay of a terrestrial path.
pub const ONE_WAY: Span = Span::from_millis(50);
const MTU: u64 = 1252;

/// The action of a node on a received bundle.
#[derive(Clone, Copy, PartialEq)]
pub enum StoreBehaviour {
    /// The bundle is durable after this delay.
    After(Span),
    /// The bundle is refused.
    Refuses(bundle::RefusalReason),
}

/// A node.
pub struct Node {
    endpoint: Box<dyn Endpoint>,
    mailbox: Mailbox,
    pub events: Vec<(Time, SessionEvent)>,
    /// The durable bundles, in sequence.
    pub stored: Vec<Bytes>,
    pub store: StoreBehaviour,
    /// The bundles that are not durable yet.
    writing: Vec<(Time, u64, Vec<Bytes>)>,
    pub is_dead: bool,
}

impl Node {
    /// Returns the acknowledged bundles of this side, and whether the peer confirmed their durability.
    pub fn accepted(&self) -> Vec<(u64, bool)> {
        let of = |(_, event): &(Time, SessionEvent)| match event {
            SessionEvent::Acknowledged { id, durable } => Some((*id, *durable)),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    pub fn refused(&self) -> Vec<(u64, bundle::RefusalReason)> {
        let of = |(_, event): &(Time, SessionEvent)| match event {
            SessionEvent::Refused { id, reason: why } => Some((*id, *why)),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    /// Returns the end of the session, if it ended.
    pub fn ended(&self) -> Option<Option<String>> {
        match self.events.last() {
            Some((_, SessionEvent::Closed { error })) => Some(error.clone()),
            _ => None,
        }
    }

    pub fn peer(&self) -> Option<String> {
        let of = |(_, event): &(Time, SessionEvent)| match event {
            SessionEvent::Established { peer, .. } => peer.clone(),
            _ => None,
        };
        self.events.iter().find_map(of)
    }
}

/// Returns whether a packet is lost: its number, sending side and length.
pub type LossFn = Box<dyn FnMut(u64, usize, u32) -> bool>;

pub struct Pair {
    pub now: Time,
    pub nodes: [Node; 2],
    wire: Vec<(Time, usize, Payload)>,
    one_way: Span,
    pub sent: u64,
    pub is_lost: LossFn,
}

fn app(
    layer: &ClaSpec,
    role: Role,
    name: &str,
    parameters: ConnectionParameters,
    mailbox: &Mailbox,
) -> AppBuilder {
    let (layer, name, mailbox) = (layer.clone(), name.to_owned(), mailbox.clone());
    Box::new(move |_| -> Box<dyn App> {
        let session = layer.build_session_with(role, &name, parameters.clone());
        Box::new(SessionApp::new(session, mailbox.clone()))
    })
}

fn controller(mss: u64, paced: bool) -> ControllerBuilder {
    let config = cc::ControllerConfig {
        mss,
        initial_window: 10 * mss,
        initial_rtt: Span::from_millis(100),
        seed: 1,
        is_paced: paced,
    };
    Box::new(move || cc::build_controller("newreno", &serde_json::json!({}), &config).unwrap())
}

fn node(
    layer: &ClaSpec,
    side: Side,
    link: Option<LinkProperties>,
    parameters: ConnectionParameters,
) -> Node {
    let (role, name) = match side {
        Side::Client => (Role::Active, "ipn:1.0"),
        Side::Server => (Role::Passive, "ipn:2.0"),
    };
    let mailbox = Mailbox::default();
    let app = app(layer, role, name, parameters, &mailbox);
    let endpoint: Box<dyn Endpoint> = match layer.quic_requirements() {
        Some(needs) => {
            let spec = QuicSpec {
                mtu_bytes: MTU as u16,
                initial_window_bytes: 10 * MTU,
                unpaced_burst_packets: 10,
                initial_rtt_ns: 100_000_000,
                ..QuicSpec::default()
            };
            let spec = link.map_or(spec.clone(), |properties| properties.adjust_quic(&spec));
            let controller = controller(MTU, true);
            let mut endpoint =
                QuicEndpoint::new(side, &spec, 1, side.name(), app, controller).unwrap();
            endpoint.set_requirements(needs);
            Box::new(endpoint)
        }
        None => {
            let spec = TcpSpec { receive_buffer_bytes: 64 << 20, ..TcpSpec::default() };
            let spec = link.map_or(spec.clone(), |properties| properties.adjust_tcp(&spec));
            Box::new(TcpEndpoint::new(side, &spec, app, controller(1448, false)))
        }
    };
    Node {
        endpoint,
        mailbox,
        events: Vec::new(),
        stored: Vec::new(),
        store: StoreBehaviour::After(Span::ZERO),
        writing: Vec::new(),
        is_dead: false,
    }
}

impl Pair {
    /// Builds a pair on a terrestrial path. The client opens its connection at once.
    pub fn new(layer: &ClaSpec) -> Pair {
        Pair::with_delay(layer, ONE_WAY, None)
    }

    /// Builds a pair with this delay, and link properties for the transports.
    pub fn with_delay(layer: &ClaSpec, one_way: Span, link: Option<LinkProperties>) -> Pair {
        Pair::with_parameters(layer, one_way, link, &ConnectionParameters::default())
    }

    /// Builds a pair with these connection parameters.
    pub fn with_parameters(
        layer: &ClaSpec,
        one_way: Span,
        link: Option<LinkProperties>,
        parameters: &ConnectionParameters,
    ) -> Pair {
        let mut pair = Pair {
            now: Time::ZERO,
            nodes: [Side::Client, Side::Server]
                .map(|side| node(layer, side, link, parameters.clone())),
            one_way,
            wire: Vec::new(),
            sent: 0,
            is_lost: Box::new(|_, _, _| false),
        };
        let mut out = Vec::new();
        pair.nodes[0].endpoint.connect(Time::ZERO, None, &mut out).unwrap();
        pair.post(0, &mut out);
        pair
    }

    fn post(&mut self, from: usize, out: &mut Vec<Payload>) {
        for payload in out.drain(..) {
            self.sent += 1;
            let lost = (self.is_lost)(self.sent, from, payload.wire_bytes());
            if !lost && !self.nodes[from].is_dead {
                self.wire.push((self.now + self.one_way, 1 - from, payload));
            }
        }
    }

    pub fn send_command(&mut self, side: usize, command: SessionCommand) {
        let mut out = Vec::new();
        let node = &mut self.nodes[side];
        node.mailbox.send_command(command);
        node.endpoint.send_command(0, AppCommand::CheckMailbox);
        node.endpoint.poll(self.now, &mut out);
        self.post(side, &mut out);
        self.process_events(side);
    }

    pub fn send(&mut self, side: usize, id: u64, data: &Bytes) {
        self.send_as(side, id, data, DeliveryMode::Reliable, 1);
    }

    pub fn send_as(
        &mut self,
        side: usize,
        id: u64,
        data: &Bytes,
        service: DeliveryMode,
        priority: u8,
    ) {
        // In chunks, like bundles of a store.
        let middle = data.len() / 3;
        let data = vec![data.slice(..middle), data.slice(middle..)];
        self.send_command(
            side,
            SessionCommand::Send(Transfer { id, data, mode: service, priority }),
        );
    }

    /// Passes session events to the node, which answers.
    fn process_events(&mut self, side: usize) {
        let mut events = Vec::new();
        let node = &mut self.nodes[side];
        node.mailbox.take_events(&mut events);
        let mut answers = Vec::new();
        for event in events {
            if let SessionEvent::Received { id, data, .. } = &event {
                match node.store {
                    StoreBehaviour::After(span) => {
                        node.writing.push((self.now + span, *id, data.clone()))
                    }
                    StoreBehaviour::Refuses(why) => answers.push(SessionCommand::Refuse(*id, why)),
                }
            }
            node.events.push((self.now, event));
        }
        node.writing.retain(|(due, id, data)| {
            let durable = *due <= self.now;
            if durable {
                node.stored.push(data.concat().into());
                answers.push(SessionCommand::ConfirmStored(*id));
            }
            !durable
        });
        for answer in answers {
            self.send_command(side, answer);
        }
    }

    /// Runs until `end`, or until no event remains.
    pub fn run(&mut self, end: Time) {
        let mut out = Vec::new();
        for side in 0..2 {
            self.process_events(side);
        }
        loop {
            let arrival = self.wire.first().map_or(Time::MAX, |(at, ..)| *at);
            let wakes = [0, 1].map(|side| {
                let node = &mut self.nodes[side];
                let stored = node.writing.iter().map(|(due, ..)| *due).min();
                let wake = node.endpoint.poll_at().min(stored.unwrap_or(Time::MAX));
                if node.is_dead { Time::MAX } else { wake }
            });
            let next = arrival.min(wakes[0]).min(wakes[1]).max(self.now);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            let side = if arrival <= next {
                let (_, side, payload) = self.wire.remove(0);
                if self.nodes[side].is_dead {
                    continue;
                }
                self.nodes[side].endpoint.receive(next, payload, &mut out);
                side
            } else {
                let side = usize::from(wakes[1] <= next);
                self.nodes[side].endpoint.poll(next, &mut out);
                side
            };
            self.post(side, &mut out);
            self.process_events(side);
        }
    }

    /// Stops a node without its unstored bundles.
    pub fn kill(&mut self, side: usize) {
        self.nodes[side].is_dead = true;
        self.nodes[side].writing.clear();
    }
}

/// Returns the bytes of a bundle. CLAs do not parse bundles, but qubicle detects them by the first octet.
pub fn payload(number: u64, length: usize) -> Bytes {
    let mut data: Vec<u8> = (0..length).map(|at| (at as u64 * 31 + number * 7) as u8).collect();
    data.iter_mut().take(1).for_each(|first| *first = 0x9f);
    data.into()
}

/// Returns the time `count` seconds after the start.
pub fn seconds(count: u64) -> Time {
    Time::ZERO + Span::from_secs(count)
}

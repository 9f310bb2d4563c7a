//! Two nodes that are no more than a store each, a session between them over QUIC or TCP in virtual time, and a path with a
//! delay each way.

use bundle::layers::{LayerSpec, Outlook, Terms};
use bundle::{Carrier, Mailbox, Role, Said, Service, Told, Transfer};
use bytes::Bytes;
use transport::quic::QuicSpec;
use transport::tcp::{self, TcpSpec};
use transport::{App, Endpoint, MakeApp, MakeController, Order, Payload, Side, quic};
use units::{Span, Time};

/// Of a path on the ground.
pub const ONE_WAY: Span = Span::from_millis(50);
const MTU: u64 = 1252;

/// What a node does with a bundle that comes.
#[derive(Clone, Copy, PartialEq)]
pub enum Store {
    /// It is durable so much later.
    After(Span),
    /// It is not taken.
    Refuses(bundle::Refusal),
}

/// A node.
pub struct Node {
    endpoint: Box<dyn Endpoint>,
    mailbox: Mailbox,
    pub said: Vec<(Time, Said)>,
    /// What is durable, in order.
    pub stored: Vec<Bytes>,
    pub store: Store,
    /// What will be durable.
    writing: Vec<(Time, u64, Vec<Bytes>)>,
    pub dead: bool,
}

impl Node {
    /// The numbers of bundles of this side that were taken, and whether the peer said that they are durable.
    pub fn accepted(&self) -> Vec<(u64, bool)> {
        let of = |(_, said): &(Time, Said)| match said {
            Said::Accepted { id, durable } => Some((*id, *durable)),
            _ => None,
        };
        self.said.iter().filter_map(of).collect()
    }

    pub fn refused(&self) -> Vec<(u64, bundle::Refusal)> {
        let of = |(_, said): &(Time, Said)| match said {
            Said::Refused { id, why } => Some((*id, *why)),
            _ => None,
        };
        self.said.iter().filter_map(of).collect()
    }

    /// How the session ended, if it did.
    pub fn ended(&self) -> Option<Option<String>> {
        match self.said.last() {
            Some((_, Said::Ended { error })) => Some(error.clone()),
            _ => None,
        }
    }

    pub fn peer(&self) -> Option<String> {
        let of = |(_, said): &(Time, Said)| match said {
            Said::Started { peer, .. } => peer.clone(),
            _ => None,
        };
        self.said.iter().find_map(of)
    }
}

/// Whether a packet is lost: its number, from which side, its length.
pub type Loses = Box<dyn FnMut(u64, usize, u32) -> bool>;

pub struct Pair {
    pub now: Time,
    pub nodes: [Node; 2],
    wire: Vec<(Time, usize, Payload)>,
    one_way: Span,
    pub sent: u64,
    pub loses: Loses,
}

fn app(layer: &LayerSpec, role: Role, name: &str, terms: Terms, mailbox: &Mailbox) -> MakeApp {
    let (layer, name, mailbox) = (layer.clone(), name.to_owned(), mailbox.clone());
    Box::new(move |_| -> Box<dyn App> {
        let session = layer.session_with(role, &name, terms.clone());
        Box::new(Carrier::new(session, mailbox.clone()))
    })
}

fn controller(mss: u64, paced: bool) -> MakeController {
    let config = cc::ControllerConfig {
        mss,
        initial_window: 10 * mss,
        initial_rtt: Span::from_millis(100),
        seed: 1,
        is_paced: paced,
    };
    Box::new(move || cc::build_controller("newreno", &serde_json::json!({}), &config).unwrap())
}

fn node(layer: &LayerSpec, side: Side, way: Option<Outlook>, terms: Terms) -> Node {
    let (role, name) = match side {
        Side::Client => (Role::Active, "ipn:1.0"),
        Side::Server => (Role::Passive, "ipn:2.0"),
    };
    let mailbox = Mailbox::default();
    let app = app(layer, role, name, terms, &mailbox);
    let endpoint: Box<dyn Endpoint> = match layer.needs() {
        Some(needs) => {
            let spec = QuicSpec {
                mtu_bytes: MTU as u16,
                initial_window_bytes: 10 * MTU,
                unpaced_burst_packets: 10,
                initial_rtt_ns: 100_000_000,
                ..QuicSpec::default()
            };
            let spec = way.map_or(spec.clone(), |way| way.quic(&spec));
            let controller = controller(MTU, true);
            let mut endpoint =
                quic::Endpoint::new(side, &spec, 1, side.name(), app, controller).unwrap();
            endpoint.set_needs(needs);
            Box::new(endpoint)
        }
        None => {
            let spec = TcpSpec { receive_buffer_bytes: 64 << 20, ..TcpSpec::default() };
            let spec = way.map_or(spec.clone(), |way| way.tcp(&spec));
            Box::new(tcp::Endpoint::new(side, &spec, app, controller(1448, false)))
        }
    };
    Node {
        endpoint,
        mailbox,
        said: Vec::new(),
        stored: Vec::new(),
        store: Store::After(Span::ZERO),
        writing: Vec::new(),
        dead: false,
    }
}

impl Pair {
    /// A connection that the client opens at once, on the ground.
    pub fn new(layer: &LayerSpec) -> Pair {
        Pair::over(layer, ONE_WAY, None)
    }

    /// The same with so long a way, of which transports may know.
    pub fn over(layer: &LayerSpec, one_way: Span, way: Option<Outlook>) -> Pair {
        Pair::with(layer, one_way, way, &Terms::default())
    }

    /// The same on these terms.
    pub fn with(layer: &LayerSpec, one_way: Span, way: Option<Outlook>, terms: &Terms) -> Pair {
        let mut pair = Pair {
            now: Time::ZERO,
            nodes: [Side::Client, Side::Server].map(|side| node(layer, side, way, terms.clone())),
            one_way,
            wire: Vec::new(),
            sent: 0,
            loses: Box::new(|_, _, _| false),
        };
        let mut out = Vec::new();
        pair.nodes[0].endpoint.connect(Time::ZERO, None, &mut out).unwrap();
        pair.post(0, &mut out);
        pair
    }

    fn post(&mut self, from: usize, out: &mut Vec<Payload>) {
        for payload in out.drain(..) {
            self.sent += 1;
            let lost = (self.loses)(self.sent, from, payload.wire_bytes());
            if !lost && !self.nodes[from].dead {
                self.wire.push((self.now + self.one_way, 1 - from, payload));
            }
        }
    }

    pub fn tell(&mut self, side: usize, told: Told) {
        let mut out = Vec::new();
        let node = &mut self.nodes[side];
        node.mailbox.tell(told);
        node.endpoint.say(0, Order::Attend);
        node.endpoint.wake(self.now, &mut out);
        self.post(side, &mut out);
        self.attend(side);
    }

    pub fn send(&mut self, side: usize, id: u64, data: &Bytes) {
        self.send_as(side, id, data, Service::Reliable, 1);
    }

    pub fn send_as(&mut self, side: usize, id: u64, data: &Bytes, service: Service, priority: u8) {
        // In parts, as a store may have it.
        let middle = data.len() / 3;
        let data = vec![data.slice(..middle), data.slice(middle..)];
        self.tell(side, Told::Send(Transfer { id, data, service, priority }));
    }

    /// What a session has said reaches its node, which answers.
    fn attend(&mut self, side: usize) {
        let mut said = Vec::new();
        let node = &mut self.nodes[side];
        node.mailbox.take_said(&mut said);
        let mut answers = Vec::new();
        for one in said {
            if let Said::Received { id, data, .. } = &one {
                match node.store {
                    Store::After(span) => node.writing.push((self.now + span, *id, data.clone())),
                    Store::Refuses(why) => answers.push(Told::Refuse(*id, why)),
                }
            }
            node.said.push((self.now, one));
        }
        node.writing.retain(|(due, id, data)| {
            let durable = *due <= self.now;
            if durable {
                node.stored.push(data.concat().into());
                answers.push(Told::Stored(*id));
            }
            !durable
        });
        for answer in answers {
            self.tell(side, answer);
        }
    }

    /// Lets all work until `end`, or until nothing happens any more.
    pub fn run(&mut self, end: Time) {
        let mut out = Vec::new();
        for side in 0..2 {
            self.attend(side);
        }
        loop {
            let arrival = self.wire.first().map_or(Time::MAX, |(at, ..)| *at);
            let wakes = [0, 1].map(|side| {
                let node = &mut self.nodes[side];
                let stored = node.writing.iter().map(|(due, ..)| *due).min();
                let wake = node.endpoint.wake_at().min(stored.unwrap_or(Time::MAX));
                if node.dead { Time::MAX } else { wake }
            });
            let next = arrival.min(wakes[0]).min(wakes[1]).max(self.now);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            let side = if arrival <= next {
                let (_, side, payload) = self.wire.remove(0);
                if self.nodes[side].dead {
                    continue;
                }
                self.nodes[side].endpoint.receive(next, payload, &mut out);
                side
            } else {
                let side = usize::from(wakes[1] <= next);
                self.nodes[side].endpoint.wake(next, &mut out);
                side
            };
            self.post(side, &mut out);
            self.attend(side);
        }
    }

    /// A node is gone with all that it has not stored.
    pub fn kill(&mut self, side: usize) {
        self.nodes[side].dead = true;
        self.nodes[side].writing.clear();
    }
}

/// A bundle's bytes: layers do not look into them, but qubicle tells a bundle by its first octet.
pub fn payload(number: u64, length: usize) -> Bytes {
    let mut data: Vec<u8> = (0..length).map(|at| (at as u64 * 31 + number * 7) as u8).collect();
    data.iter_mut().take(1).for_each(|first| *first = 0x9f);
    data.into()
}

/// Seconds after the start.
pub fn seconds(count: u64) -> Time {
    Time::ZERO + Span::from_secs(count)
}

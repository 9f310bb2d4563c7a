//! External nodes in the loop, which needs no knowledge of them. One is a splitting proxy between two minimal
//! endpoints. The other is a store with three neighbours that forwards at the start of a contact.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use serde_json::json;
use sim::{Attachment, NodeInterface, ProbedNode, World};
use topology::{Topology, TopologySpec};
use transport::Datagram;
use transport::{Node, Payload, Probe};
use units::{Ecn, Span, Time};

const MS: u64 = 1_000_000;

/// Returns a datagram of 100 bytes in wire format that contains `number`.
fn datagram(number: u32) -> Payload {
    let data = BytesMut::zeroed(72);
    Payload::Udp(Datagram::new(data, Ecn::NotEct, number, 28))
}

fn number(payload: &Payload) -> u32 {
    let Payload::Udp(datagram) = payload else { panic!("{payload:?}") };
    datagram.connection
}

type Log = Arc<Mutex<Vec<(u64, u32)>>>;

/// Sends `numbers` at once, and records received numbers with the time in ms.
struct Toy {
    numbers: Vec<u32>,
    log: Log,
}

impl Probe for Toy {}

impl Node for Toy {
    fn receive(&mut self, now: Time, _: usize, payload: Payload, _: &mut [Vec<Payload>]) {
        self.log.lock().unwrap().push((now.nanos() / MS, number(&payload)));
    }

    fn poll(&mut self, _: Time, out: &mut [Vec<Payload>]) {
        out[0].extend(self.numbers.drain(..).map(datagram));
    }

    fn poll_at(&mut self) -> Time {
        if self.numbers.is_empty() { Time::MAX } else { Time::ZERO }
    }
}

/// Runs a star with node `middle`, where neighbours send these numbers. Returns the numbers each one received.
fn star(middle: Box<dyn ProbedNode>, sending: &[&[u32]], delay_ms: &[u64]) -> Vec<Vec<(u64, u32)>> {
    let name = |n: usize| format!("n{n}");
    let mut nodes = vec![json!({"name": "middle", "kind": "host"})];
    nodes.extend((0..sending.len()).map(|n| json!({"name": name(n), "kind": "host"})));
    let link = |n: usize| {
        let stages = json!([{"kind": "delay", "delay_ns": delay_ms[n] * MS}]);
        json!({"name": format!("l{n}"), "client_side": name(n), "server_side": "middle", "up": stages, "down": stages})
    };
    let links: Vec<_> = (0..sending.len()).map(link).collect();
    let graph: TopologySpec =
        serde_json::from_str(&json!({"nodes": nodes, "links": links}).to_string()).unwrap();
    let topology = Topology::build(&graph, 1).unwrap();
    let logs: Vec<Log> = sending.iter().map(|_| Log::default()).collect();
    let mut attachments = vec![Attachment::new(middle, Vec::new())];
    for (n, numbers) in sending.iter().enumerate() {
        let at = |name: &str| topology.node_id(name).unwrap();
        let ends = [(at(&name(n)), (n + 1, 0)), (at("middle"), (0, n))];
        let [theirs, ours] = NodeInterface::build_pair(&topology, n as u32, ends);
        let node = Toy { numbers: numbers.to_vec(), log: logs[n].clone() };
        attachments.push(Attachment::new(Box::new(node), vec![theirs]));
        attachments[0].interfaces.push(ours);
    }
    World::from_attachments(topology, attachments, Time(1000 * MS))
        .run(&AtomicBool::new(false))
        .unwrap();
    logs.iter().map(|log| log.lock().unwrap().clone()).collect()
}

/// Stores all numbers, and forwards `number` to neighbour `number % 10` at the start of its contact.
struct Store {
    contacts: Vec<Time>,
    kept: Vec<VecDeque<u32>>,
}

impl Probe for Store {}

impl Node for Store {
    fn receive(&mut self, now: Time, _: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        let number = number(&payload);
        self.kept[number as usize % 10].push_back(number);
        self.poll(now, out);
    }

    fn poll(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        for ((at, kept), out) in self.contacts.iter().zip(&mut self.kept).zip(out) {
            if *at <= now {
                out.extend(kept.drain(..).map(datagram));
            }
        }
    }

    fn poll_at(&mut self) -> Time {
        let waiting = self.contacts.iter().zip(&self.kept).filter(|(_, kept)| !kept.is_empty());
        waiting.map(|(at, _)| *at).min().unwrap_or(Time::MAX)
    }
}

#[test]
fn a_store_forwards_to_three_neighbours() {
    let contacts = [500, 5, 100].map(|at| Time(at * MS)).to_vec();
    let store = Store { contacts, kept: vec![VecDeque::new(); 3] };
    let got = star(Box::new(store), &[&[11, 12, 22], &[20, 30], &[31]], &[10, 20, 40]);
    // Neighbour 0 waits for its contact at 500 ms. Neighbour 1's contact is active, neighbour 2's starts at 100 ms.
    assert_eq!(got[0], [(510, 20), (510, 30)]);
    assert_eq!(got[1], [(30, 11), (60, 31)]);
    assert_eq!(got[2], [(140, 12), (140, 22)]);
}

/// Terminates the transport of one side and sends its data on, at most one packet per 10 ms. It paces the far side and
/// acknowledges to the near side at once.
#[derive(Default)]
struct Splitter {
    waiting: VecDeque<u32>,
    next: Time,
}

const ACK: u32 = 1000;

impl Probe for Splitter {}

impl Node for Splitter {
    fn receive(&mut self, now: Time, end: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        if end == 0 {
            self.waiting.push_back(number(&payload));
            out[0].push(datagram(ACK + number(&payload)));
        }
        self.poll(now, out);
    }

    fn poll(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        if self.next <= now
            && let Some(number) = self.waiting.pop_front()
        {
            out[1].push(datagram(number));
            self.next = now + Span::from_millis(10);
        }
    }

    fn poll_at(&mut self) -> Time {
        if self.waiting.is_empty() { Time::MAX } else { self.next }
    }
}

#[test]
fn a_proxy_splits_the_path_of_two_endpoints() {
    let got = star(Box::<Splitter>::default(), &[&[1, 2, 3], &[]], &[5, 200]);
    assert_eq!(
        got[0],
        [(10, ACK + 1), (10, ACK + 2), (10, ACK + 3)],
        "the near side hears at once"
    );
    assert_eq!(got[1], [(205, 1), (215, 2), (225, 3)], "the far side gets them paced");
}

#[test]
fn a_node_without_progress_is_named() {
    struct Stuck;
    impl Probe for Stuck {}
    impl Node for Stuck {
        fn receive(&mut self, _: Time, _: usize, _: Payload, _: &mut [Vec<Payload>]) {}
        fn poll(&mut self, _: Time, _: &mut [Vec<Payload>]) {}
        fn poll_at(&mut self) -> Time {
            Time(7)
        }
    }
    let graph: TopologySpec = serde_json::from_str(
        &json!({"nodes": [{"name": "a", "kind": "host"}], "links": []}).to_string(),
    )
    .unwrap();
    let topology = Topology::build(&graph, 1).unwrap();
    let attachments = vec![Attachment::new(Box::new(Stuck), Vec::new())];
    let mut world = World::from_attachments(topology, attachments, Time(1000 * MS));
    let error = world.run(&AtomicBool::new(false)).unwrap_err();
    assert!(error.starts_with("node 0: "), "{error}");
}

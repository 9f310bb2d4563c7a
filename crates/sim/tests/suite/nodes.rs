//! Nodes of one's own in the loop, without a word of it knowing them: a splitting proxy between two toy endpoints, and a
//! store with three neighbours that forwards when a contact begins.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use path::{GraphSpec, Topology};
use serde_json::json;
use sim::{Leg, Seat, World};
use transport::Datagram;
use transport::{Node, Payload};
use units::{Ecn, Span, Time};

const MS: u64 = 1_000_000;

/// A datagram of 100 bytes on the wire that says `number`.
fn datagram(number: u32) -> Payload {
    let data = BytesMut::zeroed(72);
    Payload::Udp(Datagram::new(data, Ecn::NotEct, number, 28))
}

fn number(payload: &Payload) -> u32 {
    let Payload::Udp(datagram) = payload else { panic!("{payload:?}") };
    datagram.connection
}

type Log = Arc<Mutex<Vec<(u64, u32)>>>;

/// Sends `numbers` at once, and keeps what it gets, with the time in ms.
struct Toy {
    numbers: Vec<u32>,
    log: Log,
}

impl Node for Toy {
    fn receive(&mut self, now: Time, _: usize, payload: Payload, _: &mut [Vec<Payload>]) {
        self.log.lock().unwrap().push((now.nanos() / MS, number(&payload)));
    }

    fn wake(&mut self, _: Time, out: &mut [Vec<Payload>]) {
        out[0].extend(self.numbers.drain(..).map(datagram));
    }

    fn wake_at(&mut self) -> Time {
        if self.numbers.is_empty() { Time::MAX } else { Time::ZERO }
    }
}

/// A star: `middle` in the middle, and neighbours that send these numbers; what each of them got in the end.
fn star(middle: Box<dyn Node>, sending: &[&[u32]], delay_ms: &[u64]) -> Vec<Vec<(u64, u32)>> {
    let name = |n: usize| format!("n{n}");
    let mut nodes = vec![json!({"name": "middle", "kind": "host"})];
    nodes.extend((0..sending.len()).map(|n| json!({"name": name(n), "kind": "host"})));
    let link = |n: usize| {
        let stages = json!([{"kind": "delay", "delay_ns": delay_ms[n] * MS}]);
        json!({"name": format!("l{n}"), "client_side": name(n), "server_side": "middle", "up": stages, "down": stages})
    };
    let links: Vec<_> = (0..sending.len()).map(link).collect();
    let graph: GraphSpec =
        serde_json::from_str(&json!({"nodes": nodes, "links": links}).to_string()).unwrap();
    let topology = Topology::build(&graph, 1).unwrap();
    let logs: Vec<Log> = sending.iter().map(|_| Log::default()).collect();
    let mut seats = vec![Seat { node: middle, legs: Vec::new() }];
    for (n, numbers) in sending.iter().enumerate() {
        let at = |name: &str| topology.node_id(name).unwrap();
        let ends = [(at(&name(n)), (n + 1, 0)), (at("middle"), (0, n))];
        let [theirs, ours] = Leg::between(&topology, n as u32, ends);
        let node = Toy { numbers: numbers.to_vec(), log: logs[n].clone() };
        seats.push(Seat { node: Box::new(node), legs: vec![theirs] });
        seats[0].legs.push(ours);
    }
    World::of(topology, seats, Time(1000 * MS)).run(&AtomicBool::new(false)).unwrap();
    logs.iter().map(|log| log.lock().unwrap().clone()).collect()
}

/// Keeps everything, and gives the neighbour `number % 10` what is its own when its contact begins.
struct Store {
    contacts: Vec<Time>,
    kept: Vec<VecDeque<u32>>,
}

impl Node for Store {
    fn receive(&mut self, now: Time, _: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        let number = number(&payload);
        self.kept[number as usize % 10].push_back(number);
        self.wake(now, out);
    }

    fn wake(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        for ((at, kept), out) in self.contacts.iter().zip(&mut self.kept).zip(out) {
            if *at <= now {
                out.extend(kept.drain(..).map(datagram));
            }
        }
    }

    fn wake_at(&mut self) -> Time {
        let waiting = self.contacts.iter().zip(&self.kept).filter(|(_, kept)| !kept.is_empty());
        waiting.map(|(at, _)| *at).min().unwrap_or(Time::MAX)
    }
}

#[test]
fn a_store_forwards_to_three_neighbours() {
    let contacts = [500, 5, 100].map(|at| Time(at * MS)).to_vec();
    let store = Store { contacts, kept: vec![VecDeque::new(); 3] };
    let got = star(Box::new(store), &[&[11, 12, 22], &[20, 30], &[31]], &[10, 20, 40]);
    // Neighbour 0 waits for its contact at 500 ms; neighbour 1's has begun, neighbour 2's begins at 100 ms.
    assert_eq!(got[0], [(510, 20), (510, 30)]);
    assert_eq!(got[1], [(30, 11), (60, 31)]);
    assert_eq!(got[2], [(140, 12), (140, 22)]);
}

/// Takes what one side sends and sends it on as its own, no more than one in 10 ms: it paces the far side, and tells the
/// near one at once.
#[derive(Default)]
struct Splitter {
    waiting: VecDeque<u32>,
    next: Time,
}

const ACK: u32 = 1000;

impl Node for Splitter {
    fn receive(&mut self, now: Time, end: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        if end == 0 {
            self.waiting.push_back(number(&payload));
            out[0].push(datagram(ACK + number(&payload)));
        }
        self.wake(now, out);
    }

    fn wake(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        if self.next <= now
            && let Some(number) = self.waiting.pop_front()
        {
            out[1].push(datagram(number));
            self.next = now + Span::from_millis(10);
        }
    }

    fn wake_at(&mut self) -> Time {
        if self.waiting.is_empty() { Time::MAX } else { self.next }
    }
}

#[test]
fn a_proxy_splits_the_way_of_two_endpoints() {
    let got = star(Box::<Splitter>::default(), &[&[1, 2, 3], &[]], &[5, 200]);
    assert_eq!(
        got[0],
        [(10, ACK + 1), (10, ACK + 2), (10, ACK + 3)],
        "the near side hears at once"
    );
    assert_eq!(got[1], [(205, 1), (215, 2), (225, 3)], "the far side gets them paced");
}

#[test]
fn who_does_not_progress_is_named() {
    struct Stuck;
    impl Node for Stuck {
        fn receive(&mut self, _: Time, _: usize, _: Payload, _: &mut [Vec<Payload>]) {}
        fn wake(&mut self, _: Time, _: &mut [Vec<Payload>]) {}
        fn wake_at(&mut self) -> Time {
            Time(7)
        }
    }
    let graph: GraphSpec = serde_json::from_str(
        &json!({"nodes": [{"name": "a", "kind": "host"}], "links": []}).to_string(),
    )
    .unwrap();
    let topology = Topology::build(&graph, 1).unwrap();
    let seats = vec![Seat { node: Box::new(Stuck), legs: Vec::new() }];
    let mut world = World::of(topology, seats, Time(1000 * MS));
    let said = world.run(&AtomicBool::new(false)).unwrap_err();
    assert!(said.starts_with("node 0: "), "{said}");
}

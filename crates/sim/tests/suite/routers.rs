//! Routers in the loop: one whose route changes and one that holds, and flows whose way begins later than they do.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use path::{GraphSpec, Topology};
use serde_json::{Value, json};
use sim::{Leg, Measurements, Seat, World};
use transport::Datagram;
use transport::{Node, Payload};
use units::{Ecn, Time};

use crate::common::{Case, data, number};

const MS: u64 = 1_000_000;

type Log = Arc<Mutex<Vec<(u64, u32)>>>;

/// Sends a numbered packet of 100 bytes every millisecond, and keeps when it gets which.
#[derive(Default)]
struct Ticker {
    next: u32,
    count: u32,
    log: Log,
}

impl Node for Ticker {
    fn receive(&mut self, now: Time, _: usize, payload: Payload, _: &mut [Vec<Payload>]) {
        let Payload::Udp(datagram) = payload else { panic!("{payload:?}") };
        self.log.lock().unwrap().push((now.nanos(), datagram.connection));
    }

    fn wake(&mut self, _: Time, out: &mut [Vec<Payload>]) {
        let data = BytesMut::zeroed(72);
        out[0].push(Payload::Udp(Datagram::new(data, Ecn::NotEct, self.next, 28)));
        self.next += 1;
    }

    fn wake_at(&mut self) -> Time {
        if self.next < self.count { Time(u64::from(self.next) * MS) } else { Time::MAX }
    }
}

/// 100 packets from one host to another over this graph; who came when, and the tables.
fn ticks(graph: Value) -> (Vec<(u64, u32)>, Measurements) {
    let graph: GraphSpec = serde_json::from_str(&graph.to_string()).unwrap();
    let topology = Topology::build(&graph, 1).unwrap();
    let ends = [("client", (0, 0)), ("server", (1, 0))]
        .map(|(name, seat)| (topology.node_id(name).unwrap(), seat));
    let log = Log::default();
    let far = Ticker { log: log.clone(), ..Ticker::default() };
    let nodes: [Box<dyn Node>; 2] =
        [Box::new(Ticker { count: 100, ..Ticker::default() }), Box::new(far)];
    let legs = Leg::between(&topology, 0, ends);
    let seats = nodes.into_iter().zip(legs).map(|(node, leg)| Seat { node, legs: vec![leg] });
    let mut world = World::of(topology, seats.collect(), Time(1000 * MS));
    world.run(&AtomicBool::new(false)).unwrap();
    let measured = world.finish();
    let got = log.lock().unwrap().clone();
    (got, measured)
}

fn link(name: &str, from: &str, to: &str, delay_ms: u64) -> Value {
    let stages = json!([{"kind": "delay", "delay_ns": delay_ms * MS}]);
    json!({"name": name, "client_side": from, "server_side": to, "up": stages, "down": stages})
}

/// Links go out of use, or come into it, at an instant in microseconds.
fn uses(at_us: u64, links: &[(&str, bool)]) -> Value {
    let links: Vec<Value> =
        links.iter().map(|(link, used)| json!({"link": link, "in_use": used})).collect();
    json!({"at_ns": at_us * 1000, "links": links})
}

#[test]
fn a_router_changes_its_route_and_holds_what_has_none() {
    let graph = json!({
        "nodes": [{"name": "client", "kind": "host"}, {"name": "server", "kind": "host"},
            {"name": "near", "kind": "router", "hold_bytes": 1050}, {"name": "far", "kind": "router"}],
        "links": [link("a", "client", "near", 5), link("b", "near", "server", 10),
            link("c", "near", "far", 3), link("d", "far", "server", 2)],
        "changes": [uses(20_500, &[("b", false)]), uses(40_500, &[("c", false)]),
            uses(60_500, &[("c", true)])],
    });
    let (mut got, measured) = ticks(graph);
    // Those that are at the router by 20.5 ms go on straight, those by 40.5 ms over the other one.
    let straight = (0..16).map(|n: u64| ((n + 15) * MS, n as u32));
    let over = (16..36).map(|n: u64| ((n + 10) * MS, n as u32));
    // Of those that come until 60.5 ms the first ten have room, and go on then, in order.
    let held = (36..46).map(|n| (65 * MS + MS / 2, n));
    let last = (56..100).map(|n: u64| ((n + 10) * MS, n as u32));
    let mut wanted: Vec<_> = straight.chain(over).chain(held.clone()).chain(last).collect();
    assert_eq!(got.iter().filter(|(at, _)| *at == 65 * MS + MS / 2).count(), 10);
    let in_order: Vec<u32> = got.iter().map(|(_, n)| *n).filter(|n| *n > 35).collect();
    assert!(in_order.is_sorted(), "{in_order:?}");
    got.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(got, wanted);
    let of = |column| number(&measured, "holds", &[("node", "near")], column);
    let counts = ["arrived_packets", "released_packets", "dropped_overflow_packets"].map(of);
    assert_eq!((counts, of("held_bytes"), of("arrived_bytes")), ([20.0, 10.0, 10.0], 0.0, 2000.0));
}

#[test]
fn a_host_holds_too_and_what_is_held_at_the_end_is_in_transit() {
    let graph = |at: u64| {
        json!({
            "nodes": [{"name": "client", "kind": "host", "hold_bytes": 1_000_000},
                {"name": "server", "kind": "host"}],
            "links": [link("a", "client", "server", 5)],
            "changes": [uses(0, &[("a", false)]), uses(at * 1000, &[("a", true)])],
        })
    };
    let (got, measured) = ticks(graph(50));
    // At 50 ms those that were sent before it go first, then the one that is sent then.
    let wanted: Vec<_> = (0..100).map(|n: u64| ((n.max(50) + 5) * MS, n as u32)).collect();
    assert_eq!(got, wanted);
    assert_eq!(number(&measured, "holds", &[], "released_packets"), 50.0);
    let (got, measured) = ticks(graph(2000));
    assert_eq!((got, number(&measured, "holds", &[], "held_packets")), (vec![], 100.0));
}

/// A flow over one link, which is in use from an instant on, in ms.
fn from(at: u64, tcp: bool) -> Measurements {
    let case = Case {
        load: data(200_000, 0),
        rtt_ms: 100.0,
        duration_s: 20.0,
        tcp: tcp.then(|| json!({})),
        ..Case::default()
    };
    let mut spec = serde_json::to_value(case.spec()).unwrap();
    spec["graph"]["changes"] =
        json!([uses(0, &[("link", false)]), uses(at * 1000, &[("link", true)])]);
    spec["trace"] = json!({"packets": true});
    sim::run(&spec::RunSpec::from_json(&spec.to_string()).unwrap(), &mut |_, _| None)
        .expect("a valid run")
}

#[test]
fn a_flow_waits_for_its_way() {
    for tcp in [false, true] {
        let of = from(700, tcp);
        let packets = of.table("packets");
        let (sent, dropped) = (packets.numbers("sent_s"), packets.names("dropped"));
        let early = (0..sent.len()).filter(|row| sent[*row] < 0.7);
        assert!(
            early.clone().count() > 0 && early.clone().all(|row| dropped[row] == "client: route")
        );
        let client = |column| number(&of, "summary", &[("side", "client")], column);
        assert_eq!(client("delivered_in_order_bytes"), 200_000.0, "tcp {tcp}");
        assert!(client("connected_s") >= 0.8, "a round trip after the way is there");
        // A way that never comes is as if the first link were down all the time.
        let never = from(30_000, tcp);
        let dropped = never.table("packets").names("dropped").to_vec();
        assert!(dropped.len() > 2 && dropped.iter().all(|why| *why == "client: route"));
        assert_eq!(number(&never, "link_summary", &[("link", "link.up")], "arrived_packets"), 0.0);
    }
}

//! Routers in the loop: one with a route change and one that buffers, and flows that start before their path exists.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use serde_json::{Value, json};
use sim::{Attachment, Measurements, NodeInterface, World};
use topology::{Topology, TopologySpec};
use transport::Datagram;
use transport::{Node, Payload, Probe};
use units::{Ecn, Time};

use crate::common::{Case, data, number};

const MS: u64 = 1_000_000;

type Log = Arc<Mutex<Vec<(u64, u32)>>>;

/// Sends a numbered packet of 100 bytes every millisecond, and records the arrivals of the other side.
#[derive(Default)]
struct Ticker {
    next: u32,
    count: u32,
    log: Log,
}

impl Probe for Ticker {}

impl Node for Ticker {
    fn receive(&mut self, now: Time, _: usize, payload: Payload, _: &mut [Vec<Payload>]) {
        let Payload::Udp(datagram) = payload else { panic!("{payload:?}") };
        self.log.lock().unwrap().push((now.nanos(), datagram.connection));
    }

    fn poll(&mut self, _: Time, out: &mut [Vec<Payload>]) {
        let data = BytesMut::zeroed(72);
        out[0].push(Payload::Udp(Datagram::new(data, Ecn::NotEct, self.next, 28)));
        self.next += 1;
    }

    fn poll_at(&mut self) -> Time {
        if self.next < self.count { Time(u64::from(self.next) * MS) } else { Time::MAX }
    }
}

/// Sends 100 packets between two hosts over this graph. Returns arrivals with numbers, and the measurements.
fn ticks(graph: Value) -> (Vec<(u64, u32)>, Measurements) {
    let graph: TopologySpec = serde_json::from_str(&graph.to_string()).unwrap();
    let topology = Topology::build(&graph, 1).unwrap();
    let ends = [("client", (0, 0)), ("server", (1, 0))]
        .map(|(name, node)| (topology.node_id(name).unwrap(), node));
    let log = Log::default();
    let far = Ticker { log: log.clone(), ..Ticker::default() };
    let nodes = [Ticker { count: 100, ..Ticker::default() }, far];
    let interfaces = NodeInterface::build_pair(&topology, 0, ends);
    let attachments = nodes
        .into_iter()
        .zip(interfaces)
        .map(|(node, interface)| Attachment::new(Box::new(node), vec![interface]));
    let mut world = World::from_attachments(topology, attachments.collect(), Time(1000 * MS));
    world.run(&AtomicBool::new(false)).unwrap();
    let measured = world.finish();
    let got = log.lock().unwrap().clone();
    (got, measured)
}

fn link(name: &str, from: &str, to: &str, delay_ms: u64) -> Value {
    let stages = json!([{"kind": "delay", "delay_ns": delay_ms * MS}]);
    json!({"name": name, "client_side": from, "server_side": to, "up": stages, "down": stages})
}

/// Returns a change that disables or enables links at an instant in microseconds.
fn uses(at_us: u64, links: &[(&str, bool)]) -> Value {
    let links: Vec<Value> =
        links.iter().map(|(link, used)| json!({"link": link, "enabled": used})).collect();
    json!({"at_ns": at_us * 1000, "links": links})
}

#[test]
fn a_router_changes_its_route_and_buffers_packets_without_one() {
    let graph = json!({
        "nodes": [{"name": "client", "kind": "host"}, {"name": "server", "kind": "host"},
            {"name": "near", "kind": "router", "store_and_forward_bytes": 1050}, {"name": "far", "kind": "router"}],
        "links": [link("a", "client", "near", 5), link("b", "near", "server", 10),
            link("c", "near", "far", 3), link("d", "far", "server", 2)],
        "changes": [uses(20_500, &[("b", false)]), uses(40_500, &[("c", false)]),
            uses(60_500, &[("c", true)])],
    });
    let (mut got, measured) = ticks(graph);
    // Packets that reach the router before 20.5 ms use the direct link, those before 40.5 ms the other one.
    let straight = (0..16).map(|n: u64| ((n + 15) * MS, n as u32));
    let over = (16..36).map(|n: u64| ((n + 10) * MS, n as u32));
    // The buffer takes the first ten of those that arrive before 60.5 ms, and then releases them in sequence.
    let held = (36..46).map(|n| (65 * MS + MS / 2, n));
    let last = (56..100).map(|n: u64| ((n + 10) * MS, n as u32));
    let mut wanted: Vec<_> = straight.chain(over).chain(held.clone()).chain(last).collect();
    assert_eq!(got.iter().filter(|(at, _)| *at == 65 * MS + MS / 2).count(), 10);
    let in_order: Vec<u32> = got.iter().map(|(_, n)| *n).filter(|n| *n > 35).collect();
    assert!(in_order.is_sorted(), "{in_order:?}");
    got.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(got, wanted);
    let of = |column| number(&measured, "node_buffers", &[("node", "near")], column);
    let counts = ["arrived_packets", "released_packets", "dropped_overflow_packets"].map(of);
    assert_eq!(
        (counts, of("buffered_bytes"), of("arrived_bytes")),
        ([20.0, 10.0, 10.0], 0.0, 2000.0)
    );
}

#[test]
fn a_host_buffers_too_and_buffered_packets_count_as_in_transit() {
    let graph = |at: u64| {
        json!({
            "nodes": [{"name": "client", "kind": "host", "store_and_forward_bytes": 1_000_000},
                {"name": "server", "kind": "host"}],
            "links": [link("a", "client", "server", 5)],
            "changes": [uses(0, &[("a", false)]), uses(at * 1000, &[("a", true)])],
        })
    };
    let (got, measured) = ticks(graph(50));
    // At 50 ms the buffered packets are sent first, then the new one.
    let wanted: Vec<_> = (0..100).map(|n: u64| ((n.max(50) + 5) * MS, n as u32)).collect();
    assert_eq!(got, wanted);
    assert_eq!(number(&measured, "node_buffers", &[], "released_packets"), 50.0);
    let (got, measured) = ticks(graph(2000));
    assert_eq!((got, number(&measured, "node_buffers", &[], "buffered_packets")), (vec![], 100.0));
}

/// Runs a flow over one link, which is enabled after `at` ms.
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
fn a_flow_waits_for_its_path() {
    for tcp in [false, true] {
        let of = from(700, tcp);
        let packets = of.table("packets");
        let (sent, dropped) = (packets.numbers("sent_s"), packets.names("dropped"));
        let early = (0..sent.len()).filter(|row| sent[*row] < 0.7);
        assert!(
            early.clone().count() > 0
                && early.clone().all(|row| dropped[row] == "client: no_route")
        );
        let client = |column| number(&of, "flow_summary", &[("side", "client")], column);
        assert_eq!(client("delivered_in_order_bytes"), 200_000.0, "tcp {tcp}");
        assert!(client("connected_s") >= 0.8, "a round trip after the way is there");
        // A path that never appears equals a first link that is always down.
        let never = from(30_000, tcp);
        let dropped = never.table("packets").names("dropped").to_vec();
        assert!(dropped.len() > 2 && dropped.iter().all(|why| *why == "client: no_route"));
        assert_eq!(number(&never, "link_summary", &[("link", "link.up")], "arrived_packets"), 0.0);
    }
}

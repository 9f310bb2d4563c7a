//! Third proof: two hops over a router, driven by a loop of a few lines.

use path::{GraphSpec, Line, LinkSpec, NodeKind, NodeSpec, Output, Topology};
use units::{NodeId, Packet, Time};

use crate::common::{delay, packet, transmit};

fn graph() -> GraphSpec {
    let node = |name: &str, kind| NodeSpec { name: name.into(), kind };
    let link = |name: &str, client_side: &str, server_side: &str, rate| LinkSpec {
        name: name.into(),
        client_side: client_side.into(),
        server_side: server_side.into(),
        up: vec![delay(5_000_000), transmit(rate, None)],
        down: vec![transmit(rate, None), delay(5_000_000)],
    };
    GraphSpec {
        nodes: vec![
            node("client", NodeKind::Host),
            node("gateway", NodeKind::Router),
            node("server", NodeKind::Host),
        ],
        links: vec![
            link("satellite", "client", "gateway", 8_000_000),
            link("internet", "gateway", "server", 16_000_000),
        ],
    }
}

/// Runs until nothing is left; returns what reached its destination.
fn run(topology: &mut Topology, mut arrivals: Vec<(Time, NodeId, Packet)>) -> Vec<(Time, Packet)> {
    let (mut home, mut out) = (Vec::new(), Output::default());
    loop {
        for (due, at, packet) in arrivals.drain(..) {
            match topology.next_hop(at, packet.destination) {
                Some(line) => topology.lines[line].push(due, packet, &mut out),
                None => home.push((due, packet)),
            }
        }
        let next = |lines: &[Line]| (0..lines.len()).min_by_key(|line| lines[*line].poll_at());
        let line = next(&topology.lines).unwrap();
        if topology.lines[line].poll_at() == Time::MAX {
            return home;
        }
        let due = topology.lines[line].poll_at();
        topology.lines[line].poll(due, &mut out);
        let end = topology.line_end(line);
        arrivals.extend(out.delivered.drain(..).map(|(due, packet)| (due, end, packet)));
    }
}

#[test]
fn packets_cross_both_links_and_echo() {
    let mut topology = Topology::build(&graph(), 1).unwrap();
    let [client, server] = ["client", "server"].map(|name| topology.node_id(name).unwrap());
    assert_eq!(topology.path_between(client, server), [0, 2]);
    assert_eq!(topology.path_between(server, client), [3, 1]);
    let to = |source, destination, number| Packet { source, destination, ..packet(number, 1000) };
    let burst = (0..100).map(|n| (Time::ZERO, client, to(client, server, n)));
    let there = run(&mut topology, burst.collect());
    // 100 packets of 1 ms on the first link, then 0.5 ms on the second; two delays of 5 ms.
    assert_eq!(there.first().unwrap().0, Time(11_500_000));
    assert_eq!(there.last().unwrap().0, Time(110_500_000));
    let echoes =
        there.iter().map(|(due, p)| (*due, server, to(server, client, p.handle))).collect();
    let back = run(&mut topology, echoes);
    assert_eq!(back.len(), 100);
    assert_eq!(back.last().unwrap().0, Time(122_000_000));
    assert!(topology.lines.iter().all(|line| line.in_transit() == (0, 0)));
}

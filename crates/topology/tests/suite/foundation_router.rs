//! Third proof: routers, and a handover that changes route, delay, rate, limit and packets in flight together. A loop
//! of a few lines drives it, on time and late.

use link::{DropReason, InFlightPolicy, LinkOutput, QueueLimit};
use topology::{
    LinkAdminState, LinkSpec, NodeKind, NodeSpec, RouteChange, RouteOverride, ScheduledStageUpdate,
    StageUpdateSpec, Topology, TopologyChange, TopologySpec,
};
use units::{NodeId, Packet, RandomStream, Span, Time};

use crate::common::{delay, link, node, packet, transmit};

fn graph() -> TopologySpec {
    let node =
        |name: &str, kind| NodeSpec { name: name.into(), kind, store_and_forward_bytes: None };
    let link = |name: &str, client_side: &str, server_side: &str, rate| LinkSpec {
        name: name.into(),
        client_side: client_side.into(),
        server_side: server_side.into(),
        up: vec![delay(5_000_000), transmit(rate, None)],
        down: vec![transmit(rate, None), delay(5_000_000)],
    };
    TopologySpec {
        nodes: vec![
            node("client", NodeKind::Host),
            node("gateway", NodeKind::Router),
            node("server", NodeKind::Host),
        ],
        links: vec![
            link("satellite", "client", "gateway", 8_000_000),
            link("internet", "gateway", "server", 16_000_000),
        ],
        changes: vec![],
    }
}

/// The outcome of the packets: arrivals at the destination with times, and drops with reasons.
#[derive(Debug, Default, PartialEq)]
struct Deliveries {
    home: Vec<(Time, u32)>,
    dropped: Vec<(Time, u32, DropReason)>,
}

impl Deliveries {
    /// Returns the numbers and times in ms of packets dropped for `cause`.
    fn lost(&self, cause: DropReason) -> Vec<(u64, u32)> {
        let of = self.dropped.iter().filter(|(_, _, why)| *why == cause);
        of.map(|(at, number, _)| (at.nanos() / MS, *number)).collect()
    }
}

/// Processes all work and arrivals by time until none is left.
fn run(topology: &mut Topology, mut sent: Vec<(Time, NodeId, Packet)>) -> Deliveries {
    let (mut deliveries, mut out) = (Deliveries::default(), LinkOutput::default());
    loop {
        let first = sent.iter().map(|(at, ..)| *at).min().unwrap_or(Time::MAX);
        let line = (0..topology.simplex_links.len())
            .min_by_key(|l| topology.simplex_links[*l].poll_at())
            .unwrap();
        let now = first.min(topology.simplex_links[line].poll_at());
        if now == Time::MAX {
            return deliveries;
        }
        if now >= topology.next_route_change_at() {
            topology.apply_routes(now);
        }
        let end = if topology.simplex_links[line].poll_at() == now {
            topology.simplex_links[line].poll(now, &mut out);
            Some(topology.far_end(line))
        } else {
            let (_, at, packet) = sent.remove(sent.iter().position(|s| s.0 == now).unwrap());
            match topology.next_hop(at, packet.destination) {
                Some(line) => {
                    topology.simplex_links[line].push(now, packet, &mut out);
                    Some(topology.far_end(line))
                }
                None if at == packet.destination => {
                    deliveries.home.push((now, packet.handle));
                    None
                }
                None => {
                    deliveries.dropped.push((now, packet.handle, DropReason::NoRoute));
                    None
                }
            }
        };
        deliveries.dropped.extend(out.dropped.drain(..).map(|(at, p, why)| (at, p.handle, why)));
        sent.extend(out.delivered.drain(..).map(|(due, packet)| (due, end.unwrap(), packet)));
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
    let there = run(&mut topology, burst.collect()).home;
    // 100 packets of 1 ms on the first link, then 0.5 ms on the second; two delays of 5 ms.
    assert_eq!(there.first().unwrap().0, Time(11_500_000));
    assert_eq!(there.last().unwrap().0, Time(110_500_000));
    let echoes = there.iter().map(|(due, n)| (*due, server, to(server, client, *n))).collect();
    let back = run(&mut topology, echoes).home;
    assert_eq!(back.len(), 100);
    assert_eq!(back.last().unwrap().0, Time(122_000_000));
    assert!(topology.simplex_links.iter().all(|line| line.in_transit() == (0, 0)));
}

const MS: u64 = 1_000_000;

/// A terminal with two visible satellites, the far one at 30 ms and the near one at 10 ms. Both connect to the gateway
/// of the server. At 50.5 ms the terminal is handed over from the far to the near satellite. Until then the near link
/// is not in use.
fn handover(policy: InFlightPolicy) -> TopologySpec {
    let access = |name: &str, satellite: &str, ms| {
        let stages = || vec![delay(ms * MS)];
        link(name, "terminal", satellite, stages(), stages())
    };
    let feeder = |name: &str, satellite: &str| {
        let stages = || vec![delay(5 * MS)];
        link(name, satellite, "gateway", stages(), stages())
    };
    let ground = vec![transmit(8_000_000, Some(QueueLimit::Packets(1000)))];
    let uses = |link: &str, in_use| LinkAdminState { link: link.into(), enabled: in_use };
    let stage = |line: &str, change| ScheduledStageUpdate {
        simplex_link: line.into(),
        stage: 0,
        update: change,
    };
    TopologySpec {
        nodes: vec![
            node("terminal", NodeKind::Host),
            node("far", NodeKind::Router),
            node("near", NodeKind::Router),
            node("gateway", NodeKind::Router),
            node("server", NodeKind::Host),
        ],
        links: vec![
            access("one", "far", 30),
            access("two", "near", 10),
            feeder("three", "far"),
            feeder("four", "near"),
            link("ground", "gateway", "server", ground.clone(), ground),
        ],
        changes: vec![
            TopologyChange {
                at_ns: 0,
                links: vec![uses("two", false)],
                ..TopologyChange::default()
            },
            TopologyChange {
                at_ns: 50 * MS + MS / 2,
                links: vec![uses("one", false), uses("two", true)],
                routes: vec![],
                stages: vec![
                    stage("one.up", StageUpdateSpec::InFlight { policy }),
                    stage("four.up", StageUpdateSpec::Delay { delay_ns: 2 * MS }),
                    stage("ground.up", StageUpdateSpec::Rate { rate_bit_s: 16_000_000 }),
                    stage(
                        "ground.up",
                        StageUpdateSpec::Limit { limit: Some(QueueLimit::Packets(2)) },
                    ),
                ],
            },
        ],
    }
}

/// Returns `count` packets of 1,000 bytes from the terminal, one every millisecond.
fn stream(topology: &Topology, count: u32) -> Vec<(Time, NodeId, Packet)> {
    let [source, destination] = ["terminal", "server"].map(|n| topology.node_id(n).unwrap());
    let packet = |n| Packet { source, destination, ..packet(n, 1000) };
    (0..count).map(|n| (Time(u64::from(n) * MS), source, packet(n))).collect()
}

#[test]
fn a_handover_is_one_event() {
    let mut topology = Topology::build(&handover(InFlightPolicy::Drop), 1).unwrap();
    let sent = stream(&topology, 100);
    let deliveries = run(&mut topology, sent);
    // Packets sent by 20 ms reach the far satellite by 50 ms. They continue at 8 Mb/s, and at 16 Mb/s afterwards.
    let whole = |n: u64| ((n + 30 + 5 + 1) * MS, n as u32);
    let half = |n: u64| ((n + 30 + 5) * MS + MS / 2, n as u32);
    let wanted = (0..15).map(whole).chain([(51 * MS, 15)]).chain((16..21).map(half));
    let home: Vec<_> = deliveries.home.iter().map(|(at, n)| (at.nanos(), *n)).collect();
    assert_eq!(home[..21], wanted.collect::<Vec<_>>());
    // Packets in flight to it are dropped at that instant, with that time stamp.
    let lost: Vec<_> = deliveries.lost(DropReason::Outage);
    assert_eq!(lost, (21..51).map(|n| (50, n)).collect::<Vec<_>>());
    assert!(deliveries.dropped.iter().all(|(at, ..)| *at == Time(50 * MS + MS / 2)));
    // Later packets take the near satellite: 10 ms, and the current 2 ms of its feeder link.
    let near = (51..100).map(|n: u64| ((n + 10 + 2) * MS + MS / 2, n as u32));
    assert_eq!(home[21..], near.collect::<Vec<_>>());
    let lines = topology.simplex_links.iter();
    assert!(lines.clone().all(|line| line.in_transit() == (0, 0)));
    assert_eq!(lines.map(|line| line.counters().delivered_packets).sum::<u64>(), 3 * 70);
}

#[test]
fn a_packet_without_a_route_is_dropped_at_its_node() {
    let mut graph = handover(InFlightPolicy::InOrder);
    let at = |at_ns, node: &str, route| TopologyChange {
        at_ns,
        routes: vec![RouteChange { node: node.into(), to: "server".into(), route }],
        ..TopologyChange::default()
    };
    graph.changes.truncate(1);
    // The far satellite has no route from 40 ms on, and the terminal has none from 60 ms on.
    graph.changes.push(at(40 * MS, "far", RouteOverride::NoRoute));
    graph.changes.push(at(60 * MS, "terminal", RouteOverride::NoRoute));
    graph.changes.push(at(70 * MS, "terminal", RouteOverride::Shortest));
    graph.changes.push(at(100 * MS, "far", RouteOverride::Link("three".into())));
    let mut topology = Topology::build(&graph, 1).unwrap();
    let sent = stream(&topology, 100);
    let deliveries = run(&mut topology, sent);
    let numbers: Vec<u32> = deliveries.home.iter().map(|(_, n)| *n).collect();
    assert_eq!(numbers, (0..10).chain(70..100).collect::<Vec<_>>());
    let far = (10..60).map(|n: u32| (u64::from(n) + 30, n));
    let terminal = (60..70).map(|n: u32| (u64::from(n), n));
    let mut wanted: Vec<_> = far.chain(terminal).collect();
    wanted.sort_unstable();
    let mut lost = deliveries.lost(DropReason::NoRoute);
    lost.sort_unstable();
    assert_eq!(lost, wanted);
}

/// A driver that is late by up to `lateness`. It processes the links in path order, each with all packets that have
/// arrived by then, and uses the routes of each packet's arrival time.
fn run_late(
    topology: &mut Topology,
    sent: &[(Time, NodeId, Packet)],
    lateness: Span,
) -> Deliveries {
    let (mut deliveries, mut out) = (Deliveries::default(), LinkOutput::default());
    let mut random = RandomStream::named(1, "driver", "lateness");
    let mut waiting: Vec<(Time, NodeId, Packet)> = sent.to_vec();
    let forward_links: Vec<usize> = (0..topology.simplex_links.len()).step_by(2).collect();
    loop {
        let work = topology.simplex_links.iter().map(link::SimplexLink::poll_at).min().unwrap();
        let due = waiting.iter().map(|(at, ..)| *at).min().unwrap_or(Time::MAX).min(work);
        if due == Time::MAX {
            deliveries.home.sort_unstable();
            deliveries.dropped.sort_unstable();
            return deliveries;
        }
        let now = due + random.span_below(lateness);
        for line in &forward_links {
            let (start, end) = (topology.near_end(*line), topology.far_end(*line));
            let leads = |(at, node, packet): &(Time, NodeId, Packet)| {
                let next = topology.next_hop_at(*at, *node, packet.destination);
                *node == start && *at <= now && next == Some(*line)
            };
            let (mut here, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(leads);
            waiting = rest;
            here.sort_by_key(|(at, ..)| *at);
            for (at, _, packet) in here {
                topology.simplex_links[*line].push(at, packet, &mut out);
            }
            topology.simplex_links[*line].poll(now, &mut out);
            waiting.extend(out.delivered.drain(..).map(|(at, packet)| (at, end, packet)));
            deliveries
                .dropped
                .extend(out.dropped.drain(..).map(|(at, p, why)| (at, p.handle, why)));
        }
        waiting.retain(|(at, node, packet)| {
            if topology.next_hop_at(*at, *node, packet.destination).is_some() || *at > now {
                return true;
            }
            match *node == packet.destination {
                true => deliveries.home.push((*at, packet.handle)),
                false => deliveries.dropped.push((*at, packet.handle, DropReason::NoRoute)),
            }
            false
        });
    }
}

#[test]
fn a_late_driver_sees_the_same_handover() {
    for policy in [InFlightPolicy::InOrder, InFlightPolicy::Reorder, InFlightPolicy::Drop] {
        let topology = || Topology::build(&handover(policy), 1).unwrap();
        let sent = stream(&topology(), 200);
        let mut exact = run(&mut topology(), sent.clone());
        exact.home.sort_unstable();
        exact.dropped.sort_unstable();
        for lateness in [1, 5 * MS, 90 * MS] {
            assert_eq!(run_late(&mut topology(), &sent, Span(lateness)), exact, "{policy:?}");
        }
    }
}

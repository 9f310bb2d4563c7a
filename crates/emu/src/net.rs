//! From a path's graph to what carries it in real time: which nodes get a namespace, which links lie between two of
//! them, and over which of these each node sends what is for whom, from when on.
//!
//! Hosts and proxies have a namespace of their own, and so has a router at which ways part or meet, or end. Between
//! two of them all links in a row are one *segment*: one pair of devices, one thread a direction.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use path::{Line, NodeKind, Topology};
use units::{NodeId, Span, Time};

use crate::lab::LabSpec;

/// Segments of one lab, at most: each is two threads, and a third of a second to measure them beforehand.
pub(crate) const MOST_SEGMENTS: usize = 64;

/// Hosts of one lab, at most: as many have an address in one network.
const MOST_HOSTS: usize = 100;

/// A node with a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node's name.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
}

/// The part of a path between two namespaces.
pub(crate) struct Segment {
    pub name: String,
    /// The places at its ends: packets upwards go from the first to the second.
    pub between: [usize; 2],
    /// Names of the lines of both directions, each in the order a packet meets them.
    pub names: [Vec<String>; 2],
    /// The lines, upwards and downwards.
    pub lines: [Vec<Line>; 2],
}

/// How what is for a host goes on from a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The segment.
    pub segment: usize,
    /// Whether the place is its first end (0) or its second (1).
    pub side: usize,
}

/// From a place on, what is for a host takes this leg; none: it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The place.
    pub at: usize,
    /// The host, a place too.
    pub to: usize,
    /// The leg.
    pub leg: Option<Leg>,
}

/// Routes that hold from an instant on, beside those before that they do not name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The instant, from the start of the path's schedule.
    pub from: Time,
    /// The routes.
    pub routes: Vec<Route>,
}

/// What the way between two hosts cannot exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The two hosts, places both.
    pub between: [usize; 2],
    /// From when on there is a way, there and back.
    pub from: Time,
    /// Rate there and back, bit/s; none: unlimited.
    pub rates: [Option<u64>; 2],
    /// Round-trip propagation that no packet is faster than.
    pub propagation: Span,
}

/// Places, segments and routes.
pub(crate) struct Net {
    /// Of a chain in order from client to server; otherwise the hosts in the plan's order, then who passes on.
    pub places: Vec<Place>,
    pub segments: Vec<Segment>,
    /// In order of time; the first from the start on, and whole.
    pub versions: Vec<Version>,
    /// Of every two hosts, client and server first, by the first routes that lead there and back.
    pub promises: Vec<Promise>,
    /// Client and server alone, with one way between them.
    pub is_chain: bool,
}

/// Lines in a row between two nodes with namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hop {
    ends: [NodeId; 2],
    lines: Vec<usize>,
}

/// A way from one host to another, whole or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    from: NodeId,
    to: NodeId,
    lines: Vec<usize>,
}

/// The ways between hosts by all versions of the routes.
struct Ways {
    /// Each once, in the order of [`pairs`] and of time.
    every: Vec<Way>,
    /// Of every two hosts the first way there and back that is whole, with its instant.
    first: BTreeMap<usize, (Time, [Way; 2])>,
}

impl Ways {
    fn new(topology: &mut Topology, hosts: &[NodeId]) -> Ways {
        let (mut every, mut seen, mut first) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        let mut at = Time::ZERO;
        loop {
            for (number, ends) in pairs(hosts).enumerate() {
                let both = [ends, [ends[1], ends[0]]].map(|[from, to]| Way {
                    from,
                    to,
                    lines: topology.path_between(from, to),
                });
                for way in &both {
                    if seen.insert(way.clone()) {
                        every.push(way.clone());
                    }
                }
                let whole = |way: &Way| {
                    way.lines.last().is_some_and(|line| topology.line_end(*line) == way.to)
                };
                if !first.contains_key(&number) && both.iter().all(whole) {
                    first.insert(number, (at, both));
                }
            }
            at = topology.changes_at();
            if at == Time::MAX {
                return Ways { every, first };
            }
            topology.apply(at);
        }
    }
}

impl Net {
    /// Of the hosts of `spec`.
    ///
    /// # Errors
    /// What is wrong with the path, in words.
    pub fn new(spec: &LabSpec) -> io::Result<Net> {
        let build = || {
            let built = Topology::build(&spec.graph, spec.seed);
            built.map_err(|error| io::Error::other(error.to_string()))
        };
        let mut topology = build()?;
        let hosts = hosts(spec, &topology)?;
        let ways = Ways::new(&mut build()?, &hosts);
        let is_chain = hosts.len() == 2 && ways.every.len() == 2;
        let cuts = cuts(&topology, &hosts, &ways.every);
        let places = places(&topology, &hosts, &cuts, is_chain.then_some(&ways.every[0]));
        let hops = hops(&topology, &cuts, &ways.every);
        let pairs = paired(&topology, hops, is_chain)?;
        if pairs.len() > MOST_SEGMENTS {
            return Err(io::Error::other(format!(
                "the path has {} links between nodes of their own, expected at most {MOST_SEGMENTS}",
                pairs.len()
            )));
        }
        check_holds(spec, &topology, &ways.every)?;
        let index: BTreeMap<NodeId, usize> =
            places.iter().enumerate().map(|(place, node)| (*node, place)).collect();
        let promises = promises(&topology, &ways, &index);
        let ends = [index[&hosts[0]], index[&hosts[1]]];
        if promises.first().is_none_or(|first| first.between != ends) {
            let (client, server) = (&spec.client, &spec.server);
            let said = format!("no way ever leads from {client:?} to {server:?} and back");
            return Err(io::Error::other(said));
        }
        let versions = versions(&mut build()?, &hosts, &pairs, &index);
        let segments = segments(&mut topology, &pairs, &index);
        let place = |node: &NodeId| Place {
            name: topology.node_name(*node).to_owned(),
            kind: topology.node_kind(*node),
        };
        let places = places.iter().map(place).collect();
        Ok(Net { places, segments, versions, promises, is_chain })
    }
}

/// Client, server and the others, each once.
fn hosts(spec: &LabSpec, topology: &Topology) -> io::Result<Vec<NodeId>> {
    let mut found = Vec::new();
    for name in [&spec.client, &spec.server].into_iter().chain(&spec.hosts) {
        let node = topology
            .node_id(name)
            .ok_or_else(|| io::Error::other(format!("the path has no node {name:?}")))?;
        if found.contains(&node) {
            return Err(io::Error::other(format!("the node {name:?} is named twice")));
        }
        if found.len() >= 2 && topology.node_kind(node) != NodeKind::Host {
            return Err(io::Error::other(format!("the node {name:?} is no host")));
        }
        found.push(node);
    }
    if found.len() > MOST_HOSTS {
        let count = found.len();
        return Err(io::Error::other(format!("{count} hosts, expected at most {MOST_HOSTS}")));
    }
    Ok(found)
}

/// Every two hosts, client and server first.
fn pairs(hosts: &[NodeId]) -> impl Iterator<Item = [NodeId; 2]> {
    (1..hosts.len())
        .flat_map(move |place| hosts[..place].iter().map(move |one| [*one, hosts[place]]))
}

/// The nodes that need a namespace.
fn cuts(topology: &Topology, hosts: &[NodeId], ways: &[Way]) -> BTreeSet<NodeId> {
    let mut cuts: BTreeSet<NodeId> = hosts.iter().copied().collect();
    let (mut after, mut before) = (BTreeMap::new(), BTreeMap::new());
    for way in ways {
        for pair in way.lines.windows(2) {
            let node = topology.line_end(pair[0]);
            let parts = after.insert(pair[0], pair[1]).is_some_and(|other| other != pair[1]);
            let meets = before.insert(pair[1], pair[0]).is_some_and(|other| other != pair[0]);
            if parts || meets || topology.node_kind(node) == NodeKind::Proxy {
                cuts.insert(node);
            }
        }
        cuts.extend(way.lines.last().map(|line| topology.line_end(*line)));
    }
    cuts
}

/// The nodes with a namespace, in order; `chain` is the one way from client to server, if there is one.
fn places(
    topology: &Topology,
    hosts: &[NodeId],
    cuts: &BTreeSet<NodeId>,
    chain: Option<&Way>,
) -> Vec<NodeId> {
    if let Some(way) = chain {
        let ends = way.lines.iter().map(|line| topology.line_end(*line));
        let between = ends.filter(|node| cuts.contains(node) && *node != way.to);
        return [way.from].into_iter().chain(between).chain([way.to]).collect();
    }
    let others = cuts.iter().copied().filter(|node| !hosts.contains(node));
    hosts.iter().copied().chain(others).collect()
}

/// All ways, cut; each part once, in order.
fn hops(topology: &Topology, cuts: &BTreeSet<NodeId>, ways: &[Way]) -> Vec<Hop> {
    let mut found: Vec<Hop> = Vec::new();
    for way in ways {
        let (mut from, mut lines) = (way.from, Vec::new());
        for line in &way.lines {
            lines.push(*line);
            let end = topology.line_end(*line);
            if cuts.contains(&end) {
                let hop = Hop { ends: [from, end], lines: std::mem::take(&mut lines) };
                if !found.contains(&hop) {
                    found.push(hop);
                }
                from = end;
            }
        }
    }
    found
}

/// Hops there with hops back. Those of the same links belong together; in a chain the two directions may have others.
fn paired(topology: &Topology, mut hops: Vec<Hop>, is_chain: bool) -> io::Result<Vec<[Hop; 2]>> {
    let mut pairs = Vec::new();
    while !hops.is_empty() {
        let hop = hops.remove(0);
        let ends = [hop.ends[1], hop.ends[0]];
        let back = Hop { ends, lines: hop.lines.iter().rev().map(|line| line ^ 1).collect() };
        let partner = hops
            .iter()
            .position(|other| *other == back)
            .or_else(|| hops.iter().position(|other| is_chain && other.ends == ends));
        let back = match partner {
            Some(place) => hops.remove(place),
            None if is_chain => {
                let said = "both directions have to pass the same proxies";
                return Err(io::Error::other(said));
            }
            // Nothing is sent there.
            None => back,
        };
        // A link's name says which direction is upwards.
        let reversed = !is_chain && topology.line_name(hop.lines[0]).ends_with(".down");
        pairs.push(if reversed { [back, hop] } else { [hop, back] });
    }
    let mut seen = BTreeSet::new();
    let mut lines = pairs.iter().flatten().flat_map(|hop| &hop.lines);
    if let Some(line) = lines.find(|line| !seen.insert(**line)) {
        let said = format!("{}: ways there and back part on it", topology.line_name(*line));
        return Err(io::Error::other(said));
    }
    Ok(pairs)
}

/// What a node holds has no place in a kernel.
fn check_holds(spec: &LabSpec, topology: &Topology, ways: &[Way]) -> io::Result<()> {
    let holds = |node: NodeId| {
        let name = topology.node_name(node);
        spec.graph.nodes.iter().any(|one| one.name == name && one.hold_bytes.is_some())
    };
    let ends = ways.iter().find_map(|way| {
        let end = way.lines.last().map_or(way.from, |line| topology.line_end(*line));
        (end != way.to && holds(end)).then_some(end)
    });
    ends.map_or(Ok(()), |node| {
        let name = topology.node_name(node);
        Err(io::Error::other(format!("{name:?} holds packets, which real time cannot")))
    })
}

fn promises(topology: &Topology, ways: &Ways, index: &BTreeMap<NodeId, usize>) -> Vec<Promise> {
    let of = |(from, [there, back]): &(Time, [Way; 2])| {
        let slowest =
            |way: &Way| way.lines.iter().filter_map(|l| topology.lines[*l].rate_bit_s()).min();
        let lines = there.lines.iter().chain(&back.lines);
        Promise {
            between: [index[&there.from], index[&there.to]],
            from: *from,
            rates: [slowest(there), slowest(back)],
            propagation: Span(lines.map(|l| topology.lines[*l].propagation_ns()).sum()),
        }
    };
    ways.first.values().map(of).collect()
}

/// Routes of every place to every host, then what changes of them.
fn versions(
    topology: &mut Topology,
    hosts: &[NodeId],
    pairs: &[[Hop; 2]],
    index: &BTreeMap<NodeId, usize>,
) -> Vec<Version> {
    let mut legs = BTreeMap::new();
    for (segment, pair) in pairs.iter().enumerate() {
        for (side, hop) in pair.iter().enumerate() {
            legs.insert(hop.lines[0], Leg { segment, side });
        }
    }
    let mut before: BTreeMap<(usize, usize), Option<Leg>> = BTreeMap::new();
    let (mut found, mut from) = (Vec::new(), Time::ZERO);
    while from < Time::MAX {
        topology.apply(from);
        let mut routes = Vec::new();
        for (node, at) in index {
            for host in hosts.iter().filter(|host| *host != node) {
                let leg = match topology.next_hop(*node, *host) {
                    // No packet that is for this host comes here.
                    Some(line) if !legs.contains_key(&line) => continue,
                    line => line.map(|line| legs[&line]),
                };
                let to = index[host];
                if before.insert((*at, to), leg) != Some(leg) {
                    routes.push(Route { at: *at, to, leg });
                }
            }
        }
        if !routes.is_empty() {
            found.push(Version { from, routes });
        }
        from = topology.changes_at();
    }
    found
}

fn segments(
    topology: &mut Topology,
    pairs: &[[Hop; 2]],
    index: &BTreeMap<NodeId, usize>,
) -> Vec<Segment> {
    let mut lines: Vec<Option<Line>> =
        std::mem::take(&mut topology.lines).into_iter().map(Some).collect();
    let mut segment = |pair: &[Hop; 2]| {
        let names: [Vec<String>; 2] = [0, 1].map(|way| {
            pair[way].lines.iter().map(|line| topology.line_name(*line).to_owned()).collect()
        });
        let links = names[0].iter().map(|name| name.trim_end_matches(".up"));
        let taken = [0, 1]
            .map(|way| pair[way].lines.iter().filter_map(|line| lines[*line].take()).collect());
        Segment {
            name: links.collect::<Vec<_>>().join("+"),
            between: pair[0].ends.map(|node| index[&node]),
            names,
            lines: taken,
        }
    };
    pairs.iter().map(&mut segment).collect()
}

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;

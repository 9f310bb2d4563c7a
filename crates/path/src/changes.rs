//! What changes at an instant: from the specification to stages and links, and what is refused.

use std::collections::BTreeMap;

use units::{NodeId, Rate, Span, Time};

use crate::routes::{Fault, NONE, Table, Version, Wiring};
use crate::{
    Change, ChangeSpec, GraphSpec, NodeKind, SpecError, StageChange, Topology, Way, WayChange,
    validate,
};

impl ChangeSpec {
    fn change(&self) -> Change {
        match self {
            ChangeSpec::Delay { delay_ns } => Change::Delay(Span(*delay_ns)),
            ChangeSpec::Rate { rate_bit_s } => Change::Rate(Rate(*rate_bit_s)),
            ChangeSpec::Limit { limit } => Change::Limit(*limit),
            ChangeSpec::Loss { probability } => Change::Loss(*probability),
            ChangeSpec::InFlight { fate } => Change::InFlight(*fate),
            ChangeSpec::Serves { serves } => Change::Serves(*serves),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            ChangeSpec::Delay { .. } => "delay",
            ChangeSpec::Rate { .. } => "rate",
            ChangeSpec::Limit { .. } => "limit",
            ChangeSpec::Loss { .. } => "loss",
            ChangeSpec::InFlight { .. } => "in_flight",
            ChangeSpec::Serves { .. } => "serves",
        }
    }
}

/// Hands the changes of stages to the lines of `topology`, and returns what changes of the routes.
pub(crate) fn schedule(
    graph: &GraphSpec,
    topology: &mut Topology,
    wiring: &Wiring,
) -> Result<Vec<Version>, SpecError> {
    let links: BTreeMap<&str, usize> =
        graph.links.iter().enumerate().map(|(index, link)| (&*link.name, index)).collect();
    let find = |name: &str| links.get(name).copied().ok_or(format!("there is no link {name:?}"));
    let mut before = None;
    let (mut trial, mut versions) = (Table::new(wiring.clone()), Vec::new());
    for change in &graph.changes {
        let wrong = |message| SpecError::new(format!("changes at {} ns", change.at_ns), message);
        if before.is_some_and(|before| change.at_ns <= before) {
            return Err(wrong("they do not come after the ones before them".into()));
        }
        before = Some(change.at_ns);
        let mut version = Version { from: Time(change.at_ns), ..Version::default() };
        for one in &change.stages {
            let (line, index, new) = stage(graph, find, one).map_err(wrong)?;
            topology.lines[line].change(version.from, index, &new);
        }
        for one in &change.links {
            version.links.push((find(&one.link).map_err(wrong)?, one.in_use));
        }
        for one in &change.ways {
            version.ways.push(way(topology, find, one).map_err(wrong)?);
        }
        if !version.links.is_empty() || !version.ways.is_empty() {
            trial.change(&version);
            trial.check().map_err(|fault| wrong(why(topology, &fault)))?;
            versions.push(version);
        }
    }
    Ok(versions)
}

/// What is wrong with ways set by hand.
fn why(topology: &Topology, fault: &Fault) -> String {
    let name = |node: &usize| topology.node_name(NodeId(*node as u32));
    match fault {
        Fault::Unused { line, node, to } => format!(
            "the way from {:?} to {:?} leads over {}, whose link is not in use",
            name(node),
            name(to),
            topology.line_name(*line as usize)
        ),
        Fault::Circle { node, to } => {
            format!("packets from {:?} to {:?} go round in a circle", name(node), name(to))
        }
    }
}

/// Line, stage and what changes of it.
fn stage(
    graph: &GraphSpec,
    find: impl Fn(&str) -> Result<usize, String>,
    one: &StageChange,
) -> Result<(usize, usize, Change), String> {
    let (link, way) = match one.line.rsplit_once('.') {
        Some((link, "up")) => (find(link)?, 0),
        Some((link, "down")) => (find(link)?, 1),
        _ => return Err(format!("there is no line {:?}", one.line)),
    };
    let spec = &graph.links[link];
    let stages = [&spec.up, &spec.down][way];
    let change = one.change.change();
    let place = format!("{} stage {}", one.line, one.stage);
    match stages.get(one.stage as usize) {
        None => Err(format!("there is no {place}")),
        Some(stage) if !stage.takes(&change) => Err(format!(
            "{place} ({}) takes no such change: {}",
            stage.blueprint().kind(),
            one.change.name()
        )),
        Some(_) => {
            validate::change(&change).map_err(|message| format!("{place}: {message}"))?;
            Ok((2 * link + way, one.stage as usize, change))
        }
    }
}

/// Where a way set by hand holds, and the line; none: where the shortest holds again.
fn way(
    topology: &Topology,
    find: impl Fn(&str) -> Result<usize, String>,
    one: &WayChange,
) -> Result<((usize, usize), Option<u32>), String> {
    let id = |name: &str| topology.node_id(name).ok_or(format!("there is no node {name:?}"));
    let (node, to) = (id(&one.node)?, id(&one.to)?);
    if topology.node_kind(to) == NodeKind::Router {
        return Err(format!("nothing is sent to {:?}, a router", one.to));
    }
    if node == to {
        return Err(format!("no way leads from {:?} to itself", one.to));
    }
    let line = match &one.way {
        Way::Shortest => None,
        Way::None => Some(NONE),
        Way::Link(name) => {
            let link = find(name)?;
            let line =
                [2 * link, 2 * link + 1].into_iter().find(|l| topology.line_start(*l) == node);
            let line = line.ok_or(format!("link {name:?} does not begin at {:?}", one.node))?;
            let end = topology.line_end(line);
            if end != to && topology.node_kind(end) == NodeKind::Host {
                return Err(format!(
                    "link {name:?} leads from {:?} to {:?}, a host, which passes nothing on",
                    one.node,
                    topology.node_name(end)
                ));
            }
            Some(line as u32)
        }
    };
    Ok(((to.0 as usize, node.0 as usize), line))
}

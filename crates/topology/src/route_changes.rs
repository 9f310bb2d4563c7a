//! Scheduled changes: their translation from the specification to stages and links, and their validation.

use std::collections::BTreeMap;

use link::{SpecError, StageUpdate, validate};
use units::{NodeId, Rate, Span, Time};

use crate::routes::{Adjacency, NO_LINK, RouteError, RoutingTable, RoutingUpdate};
use crate::{
    NodeKind, RouteChange, RouteOverride, ScheduledStageUpdate, StageUpdateSpec, Topology,
    TopologySpec,
};

impl StageUpdateSpec {
    fn to_update(&self) -> StageUpdate {
        match self {
            StageUpdateSpec::Delay { delay_ns } => StageUpdate::Delay(Span(*delay_ns)),
            StageUpdateSpec::Rate { rate_bit_s } => StageUpdate::Rate(Rate(*rate_bit_s)),
            StageUpdateSpec::Limit { limit } => StageUpdate::Limit(*limit),
            StageUpdateSpec::Loss { probability } => StageUpdate::Loss(*probability),
            StageUpdateSpec::InFlight { policy } => StageUpdate::InFlight(*policy),
            StageUpdateSpec::Enabled { enabled: serves } => StageUpdate::Enabled(*serves),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            StageUpdateSpec::Delay { .. } => "delay",
            StageUpdateSpec::Rate { .. } => "rate",
            StageUpdateSpec::Limit { .. } => "limit",
            StageUpdateSpec::Loss { .. } => "loss",
            StageUpdateSpec::InFlight { .. } => "in_flight",
            StageUpdateSpec::Enabled { .. } => "enabled",
        }
    }
}

impl Topology {
    /// Schedules the updates of stages in the simplex links, and returns the routing updates.
    pub(crate) fn schedule_changes(
        &mut self,
        graph: &TopologySpec,
        adjacency: &Adjacency,
    ) -> Result<Vec<RoutingUpdate>, SpecError> {
        let links: BTreeMap<&str, usize> =
            graph.links.iter().enumerate().map(|(index, link)| (&*link.name, index)).collect();
        let find = |name: &str| links.get(name).copied().ok_or(format!("unknown link {name:?}"));
        let mut before = None;
        let (mut trial, mut updates) = (RoutingTable::new(adjacency.clone()), Vec::new());
        for change in &graph.changes {
            let wrong =
                |message| SpecError::new(format!("changes at {} ns", change.at_ns), message);
            if before.is_some_and(|before| change.at_ns <= before) {
                return Err(wrong("found a time that is not after the previous changes".into()));
            }
            before = Some(change.at_ns);
            let mut update =
                RoutingUpdate { effective_at: Time(change.at_ns), ..RoutingUpdate::default() };
            for one in &change.stages {
                let (simplex_link, index, new) =
                    resolve_stage_update(graph, find, one).map_err(wrong)?;
                self.simplex_links[simplex_link].schedule_update(update.effective_at, index, &new);
            }
            for one in &change.links {
                update.links.push((find(&one.link).map_err(wrong)?, one.enabled));
            }
            for one in &change.routes {
                update.route_overrides.push(resolve_route_change(self, find, one).map_err(wrong)?);
            }
            if !update.links.is_empty() || !update.route_overrides.is_empty() {
                trial.apply_update(&update);
                trial.validate().map_err(|fault| wrong(describe_route_error(self, &fault)))?;
                updates.push(update);
            }
        }
        Ok(updates)
    }
}

/// Describes an invalid static route.
fn describe_route_error(topology: &Topology, fault: &RouteError) -> String {
    let name = |node: &usize| topology.node_name(NodeId(*node as u32));
    match fault {
        RouteError::UnusedLink { simplex_link: line, node, destination: to } => format!(
            "the route from {:?} to {:?} uses {}, whose link is disabled",
            name(node),
            name(to),
            topology.simplex_link_name(*line as usize)
        ),
        RouteError::Loop { node, destination: to } => {
            format!("packets from {:?} to {:?} are in a routing loop", name(node), name(to))
        }
    }
}

/// Resolves the simplex link, the stage and the update.
fn resolve_stage_update(
    graph: &TopologySpec,
    find: impl Fn(&str) -> Result<usize, String>,
    one: &ScheduledStageUpdate,
) -> Result<(usize, usize, StageUpdate), String> {
    let (link, direction) = match one.simplex_link.rsplit_once('.') {
        Some((link, "up")) => (find(link)?, 0),
        Some((link, "down")) => (find(link)?, 1),
        _ => return Err(format!("unknown simplex link {:?}", one.simplex_link)),
    };
    let spec = &graph.links[link];
    let stages = [&spec.up, &spec.down][direction];
    let update = one.update.to_update();
    let location = format!("{} stage {}", one.simplex_link, one.stage);
    match stages.get(one.stage as usize) {
        None => Err(format!("unknown {location}")),
        Some(stage) if !stage.supports(&update) => Err(format!(
            "{location} ({}) does not support this change: {}",
            stage.kind(),
            one.update.name()
        )),
        Some(_) => {
            validate::update(&update).map_err(|message| format!("{location}: {message}"))?;
            Ok((2 * link + direction, one.stage as usize, update))
        }
    }
}

/// Resolves the node, the destination and the simplex link of a static route; `None` restores the shortest route.
fn resolve_route_change(
    topology: &Topology,
    find: impl Fn(&str) -> Result<usize, String>,
    one: &RouteChange,
) -> Result<((usize, usize), Option<u32>), String> {
    let id = |name: &str| topology.node_id(name).ok_or(format!("unknown node {name:?}"));
    let (node, to) = (id(&one.node)?, id(&one.to)?);
    if topology.node_kind(to) == NodeKind::Router {
        return Err(format!(
            "found the destination {:?}, which is a router, expected a host or proxy",
            one.to
        ));
    }
    if node == to {
        return Err(format!(
            "found a route from {:?} to itself, expected another destination",
            one.to
        ));
    }
    let simplex_link = match &one.route {
        RouteOverride::Shortest => None,
        RouteOverride::NoRoute => Some(NO_LINK),
        RouteOverride::Link(name) => {
            let link = find(name)?;
            let simplex_link =
                [2 * link, 2 * link + 1].into_iter().find(|l| topology.near_end(*l) == node);
            let simplex_link =
                simplex_link.ok_or(format!("link {name:?} does not begin at {:?}", one.node))?;
            let end = topology.far_end(simplex_link);
            if end != to && topology.node_kind(end) == NodeKind::Host {
                return Err(format!(
                    "link {name:?} leads from {:?} to {:?}, a host, which forwards no packets",
                    one.node,
                    topology.node_name(end)
                ));
            }
            Some(simplex_link as u32)
        }
    };
    Ok(((to.0 as usize, node.0 as usize), simplex_link))
}

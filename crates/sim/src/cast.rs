//! Who is on a path: the nodes of a specification, at their seats.

use path::Topology;
use transport::LoadSpec;
use transport::web::WebSpec;
use units::NodeId;

use crate::addresses::Tuples;
use crate::flow::{self, Controllers, FlowSide};
use crate::proxies::{self, FlowProxy};
use crate::route::Route;
use crate::seat::Seat;
use crate::trace::Scaling;
use crate::{admission, bundles};
use spec::{FlowSpec, RunSpec};

/// The nodes of a run.
#[derive(Default)]
pub struct Cast {
    /// The hosts, client and server of each flow, then the proxies of each.
    pub seats: Vec<Seat>,
    /// Who sits at the first seats.
    pub sides: Vec<FlowSide>,
    /// Who sits at those after them.
    pub proxies: Vec<FlowProxy>,
    /// Of each flow.
    pub routes: Vec<Route>,
}

impl Cast {
    /// Everybody whom `spec` names.
    ///
    /// # Errors
    /// What is wrong with the specification, in words.
    pub fn of(
        spec: &RunSpec,
        topology: &Topology,
        controllers: &mut Controllers<'_>,
    ) -> Result<Cast, String> {
        let split = proxies::nodes(spec, topology)?;
        let (mut sides, mut proxies, mut routes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut seats, mut behind) = (Vec::new(), Vec::new());
        let refused = admission::refused(spec)?;
        let first = bundles::first_link(spec)?;
        for (index, flow) in spec.flows[..first].iter().enumerate() {
            let error = |error: String| format!("flow {}: {error}", flow.name);
            let node = |name: &str| {
                topology.node_id(name).ok_or_else(|| error(format!("there is no node {name:?}")))
            };
            let (client, server) = (node(&flow.client)?, node(&flow.server)?);
            let split: &[NodeId] = if flow.transport.tcp().is_some() { &split } else { &[] };
            let route = Route::new(topology, client, server, split).map_err(error)?;
            let between = proxies::build(spec, index, &route, topology, controllers)?;
            let place = (index, spec.flows.len());
            let refused = refused.contains(&index);
            let ends = flow::build(spec.seed, flow, place, refused, spec.trace, controllers)?;
            let tuples = Tuples::new(ends[0].0.addresses);
            let places = [2 * index, 2 * first + behind.len()];
            let mut legs = route.legs(topology, (index, flow.user), tuples, places).into_iter();
            let mut seat = |node| Seat { node, legs: legs.next().unwrap_or_default() };
            for (side, node) in ends {
                sides.push(side);
                seats.push(seat(node));
            }
            for (proxy, node) in between {
                proxies.push(proxy);
                behind.push(seat(node));
            }
            routes.push(route);
        }
        seats.append(&mut behind);
        if let Some(dtn) = &spec.dtn {
            let met = bundles::build(spec, dtn, first, seats.len(), topology, controllers)?;
            sides.extend(met.sides);
            seats.extend(met.seats);
            routes.extend(met.routes);
        }
        Ok(Cast { seats, sides, proxies, routes })
    }

    /// How each host's TCP connections scale their windows; they end at the next proxy.
    pub fn scaling(&self, spec: &RunSpec, topology: &Topology) -> Vec<Scaling> {
        let of = |(flow, route): (&FlowSpec, &Route)| {
            let Some(tcp) = flow.transport.tcp() else { return [Scaling::default(); 2] };
            let proxy = |node: Option<&NodeId>| {
                let name = topology.node_name(*node?);
                spec.proxies.iter().find(|proxy| proxy.node == name)
            };
            let (first, last) = (proxy(route.proxies().first()), proxy(route.proxies().last()));
            let answering = first.map_or(&tcp.server, |proxy| &proxy.client_side.tcp);
            let asking = last.map_or(&tcp.client, |proxy| &proxy.server_side.tcp);
            [Scaling::new(&tcp.client, answering), Scaling::new(asking, &tcp.server)]
        };
        spec.flows.iter().zip(&self.routes).flat_map(of).collect()
    }
}

/// The pages that the flows load.
pub fn pages(spec: &RunSpec) -> Vec<Option<WebSpec>> {
    let page = |flow: &FlowSpec| match &flow.load {
        LoadSpec::Page(web) => Some((**web).clone()),
        _ => None,
    };
    spec.flows.iter().map(page).collect()
}

//! Bundle nodes at their seats, and the tables of what they tell.

use bundle::layers::{LayerSpec, Memory, Outlook, Over};
use bundle::{
    Agent, BundleNode, Door, DtnSpec, End, LinkSpec, Met, Name, Record, ReportRecord, ReturnSpec,
    RouteRecord,
};
use path::Topology;
use transport::quic::{Handshake, QuicSpec};
use transport::{LoadSpec, Side};
use units::{Direction, NodeId, Time};

use crate::addresses::{Addresses, Tuples};
use crate::flow::{Controllers, FlowSide, link_side, start};
use crate::route::Route;
use crate::seat::{Leg, Seat, Way};
use crate::tables::{Row, Table};
use spec::{FlowSpec, RunSpec, TransportSpec};

/// Bundle nodes of a run.
pub struct Bundles {
    /// One a node.
    pub seats: Vec<Seat>,
    /// Client and server of each link.
    pub sides: Vec<FlowSide>,
    /// Of each link.
    pub routes: Vec<Route>,
}

fn is_link(flow: &FlowSpec) -> bool {
    matches!(flow.load, LoadSpec::Bundles)
}

/// The index of the first flow that is a link of bundle nodes: all after it are.
///
/// # Errors
/// One is not.
pub fn first_link(spec: &RunSpec) -> Result<usize, String> {
    let first = spec.flows.iter().position(is_link).unwrap_or(spec.flows.len());
    if let Some(flow) = spec.flows[first..].iter().find(|flow| !is_link(flow)) {
        return Err(format!("flow {}: links of bundle nodes come after all flows", flow.name));
    }
    let links = spec.dtn.as_ref().map_or(0, |dtn| dtn.links.len());
    if links != spec.flows.len() - first {
        return Err(format!("{links} links of bundle nodes, {}", spec.flows.len() - first));
    }
    Ok(first)
}

/// Who sits where: the node of the graph, and the next end of its seat.
struct Place {
    name: String,
    node: NodeId,
    doors: Vec<Door>,
    ends: Vec<End>,
    legs: Vec<Leg>,
}

fn early(quic: &QuicSpec) -> bool {
    quic.handshake == Handshake::ZeroRtt
}

/// A link's transport and layer, as the plan has them.
fn by_plan(flow: &FlowSpec, link: &LinkSpec, dtn: &DtnSpec) -> (FlowSpec, LayerSpec) {
    let (mut flow, mut layer) = (flow.clone(), link.layer.clone());
    if let (TransportSpec::Udp(udp), LayerSpec::Ltp(ltp)) = (&flow.transport, &mut layer) {
        ltp.header_bytes = udp.header_bytes;
        ltp.segment_bytes = udp.payload_bytes.unwrap_or(ltp.segment_bytes);
    }
    if let (TransportSpec::Quic(quic), ReturnSpec::Resume) = (&mut flow.transport, link.on_return) {
        quic.handshake = Handshake::ZeroRtt;
    }
    let outlook = Outlook::between(&dtn.plan, &flow.client, &flow.server).filter(|_| link.by_plan);
    let Some(outlook) = outlook else { return (flow, layer) };
    match &mut flow.transport {
        TransportSpec::Quic(quic) => *quic = outlook.quic(quic),
        TransportSpec::Tcp(tcp) => {
            (tcp.client, tcp.server) = (outlook.tcp(&tcp.client), outlook.tcp(&tcp.server));
        }
        _ => {}
    }
    let layer = outlook.layer(&layer);
    (flow, layer)
}

/// The nodes of `dtn`, whose links are the flows from `first` on; they take the seats from `seat` on.
///
/// # Errors
/// What is wrong with the specification, in words.
pub fn build(
    spec: &RunSpec,
    dtn: &DtnSpec,
    first: usize,
    seat: usize,
    topology: &Topology,
    controllers: &mut Controllers<'_>,
) -> Result<Bundles, String> {
    let place = |name: &String| {
        let node = topology.node_id(name).ok_or(format!("there is no node {name:?}"))?;
        let (doors, ends, legs) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Place { name: name.clone(), node, doors, ends, legs })
    };
    let mut places =
        dtn.nodes.iter().map(|node| place(&node.name)).collect::<Result<Vec<_>, String>>()?;
    let (mut sides, mut routes) = (Vec::new(), Vec::new());
    for (index, flow) in spec.flows.iter().enumerate().skip(first) {
        let error = |error: String| format!("flow {}: {error}", flow.name);
        let link = dtn.links.iter().find(|link| link.flow == flow.name);
        let link = link.ok_or_else(|| error("no link of bundle nodes is called so".to_owned()))?;
        let (flow, layer) = &by_plan(flow, link, dtn);
        let find = |name: &str| {
            let found = places.iter().position(|place| place.name == name);
            found.ok_or_else(|| error(format!("there is no bundle node {name:?}")))
        };
        let both = [find(&flow.client)?, find(&flow.server)?];
        if both[0] == both[1] {
            return Err(error("it leads from a node to itself".to_owned()));
        }
        routes.push(Route::new(topology, places[both[0]].node, places[both[1]].node, &[])?);
        let udp_header_bytes = match &flow.transport {
            TransportSpec::Quic(quic) if early(quic) && !layer.takes_early_data() => {
                return Err(error(
                    "its convergence layer forbids bundles in early data".to_owned(),
                ));
            }
            TransportSpec::Quic(quic) => u32::from(quic.header_bytes),
            TransportSpec::Tcp(_)
                if matches!(link.on_return, ReturnSpec::Resume | ReturnSpec::Cue) =>
            {
                return Err(error("TCP is neither resumed nor told of a way's return".to_owned()));
            }
            TransportSpec::Tcp(tcp) => u32::from(tcp.client.header_bytes) - 12,
            TransportSpec::Udp(_) if link.on_return != ReturnSpec::Alone => {
                return Err(error("there is no connection over UDP that could return".to_owned()));
            }
            TransportSpec::Udp(udp) => u32::from(udp.header_bytes),
            TransportSpec::Web { .. } => {
                return Err(error("bundle nodes have QUIC, TCP and UDP".to_owned()));
            }
        };
        let unconnected = layer.over() == Over::Udp;
        if let LayerSpec::Ltp(ltp) = &layer
            && ltp.rate_bit_s.is_none()
            && Outlook::between(&dtn.plan, &flow.client, &flow.server).is_none()
        {
            return Err(error(
                "LTP has no rate: neither a contact nor the link has one".to_owned(),
            ));
        }
        let addresses = Addresses::new(index, spec.flows.len(), udp_header_bytes);
        let at = both.map(|place| (seat + place, places[place].ends.len()));
        for (own, far, side) in [(0, 1, Side::Client), (1, 0, Side::Server)] {
            let peer = (places[both[far]].name.clone(), places[both[far]].node);
            let place = &mut places[both[own]];
            let opens = side == Side::Client;
            let door = Door {
                neighbour: peer.0,
                end: at[own].1,
                // Over UDP no side has to be first, and answers have no connection to come back on.
                sends: opens || link.shared || unconnected,
                opens: opens || unconnected,
                with_contact: link.with_contact,
                closes: link.closes,
                on_return: link.on_return,
                by_plan: layer.goes_by_plan(),
            };
            let eid = &dtn.nodes[both[own]].eid;
            let met = Met::default();
            let make_app = met.make_app(layer, eid);
            let endpoint = link_side(spec.seed, flow, side, layer.over(), make_app, controllers)
                .map_err(error)?;
            place.doors.push(door);
            let memory = (link.on_return == ReturnSpec::Resume).then(Memory::default);
            place.ends.push(End { endpoint, layer: layer.clone(), met, memory });
            let direction = if opens { Direction::Up } else { Direction::Down };
            let way = Way::new(topology, place.node, peer.1, at[far]);
            place.legs.push(Leg {
                flow: index as u32,
                user: flow.user,
                from: place.node,
                direction,
                tuples: Tuples::new(addresses),
                ways: [way; 2],
            });
            let congestion = if opens { &flow.client_congestion } else { &flow.server_congestion };
            sides.push(FlowSide {
                flow: flow.name.clone(),
                side,
                congestion: congestion.name.clone(),
                addresses,
                start: start(spec.seed, flow),
                at: at[own],
                linked: true,
            });
        }
    }
    let mut seats = Vec::new();
    for (place, node) in places.into_iter().zip(&dtn.nodes) {
        let agent = Agent::new(dtn, &place.name, &place.doors)
            .map_err(|error| format!("bundle node {}: {error}", place.name))?;
        let node = Box::new(BundleNode::new(agent, place.ends).with(node));
        seats.push(Seat { node, legs: place.legs });
    }
    Ok(Bundles { seats, sides, routes })
}

/// `bundles`, `routes`, `reports` and `stores`, of a run that has bundle nodes.
pub fn tables(seats: &[Seat]) -> Vec<Table> {
    let nodes = seats.iter().filter_map(|seat| seat.node.as_any()?.downcast_ref::<BundleNode>());
    let agents: Vec<&Agent> = nodes.map(BundleNode::agent).collect();
    if agents.is_empty() {
        return Vec::new();
    }
    let mut bundles = Table::new("bundles");
    let mut rows: Vec<(Time, usize, &Record)> = agents
        .iter()
        .enumerate()
        .flat_map(|(node, agent)| agent.records().iter().map(move |one| (one.at, node, one)))
        .collect();
    rows.sort_by_key(|(at, node, _)| (*at, *node));
    for (_, node, one) in rows {
        bundles.row(&bundles_row(agents[node].name(), one));
    }
    let mut routes = Table::new("routes");
    let mut reports = Table::new("reports");
    for agent in &agents {
        agent.routes().iter().for_each(|one| routes.row(&routes_row(agent.name(), one)));
        agent.reports().iter().for_each(|one| reports.row(&reports_row(agent.name(), one)));
    }
    let mut kept = Table::new("stored");
    for agent in &agents {
        for (bundle, came) in agent.kept() {
            let name = Name::of(bundle);
            kept.row(&[
                ("node", agent.name().into()),
                ("came_s", came.seconds().into()),
                ("source", name.source.as_str().into()),
                ("created_ms", name.created_ms.into()),
                ("sequence", name.sequence.into()),
                ("offset_bytes", name.offset.map(|offset| offset as f64).into()),
                ("payload_bytes", bundle.payload_bytes().into()),
            ]);
        }
    }
    [bundles, routes, reports, kept].into_iter().filter(|table| table.rows() > 0).collect()
}

fn bundles_row<'a>(node: &'a str, one: &'a Record) -> Row<'a, 12> {
    [
        ("time_s", one.at.seconds().into()),
        ("node", node.into()),
        ("event", one.what.name().into()),
        ("kind", one.kind.into()),
        ("source", one.bundle.source.as_str().into()),
        ("destination", one.destination.as_str().into()),
        ("created_ms", one.bundle.created_ms.into()),
        ("sequence", one.bundle.sequence.into()),
        ("offset_bytes", one.bundle.offset.map(|offset| offset as f64).into()),
        ("payload_bytes", one.payload_bytes.into()),
        ("peer", one.peer.as_deref().unwrap_or("").into()),
        ("reason", one.reason.unwrap_or("").into()),
    ]
}

fn routes_row<'a>(node: &'a str, one: &'a RouteRecord) -> Row<'a, 11> {
    [
        ("time_s", one.at.seconds().into()),
        ("node", node.into()),
        ("source", one.bundle.source.as_str().into()),
        ("created_ms", one.bundle.created_ms.into()),
        ("sequence", one.bundle.sequence.into()),
        ("to", one.to.as_str().into()),
        ("decision", one.decision.into()),
        ("next", one.next.as_deref().unwrap_or("").into()),
        ("arrival_s", one.arrival.map(Time::seconds).into()),
        ("contacts", one.contacts.as_str().into()),
        ("reason", one.reason.as_str().into()),
    ]
}

fn reports_row<'a>(node: &'a str, one: &'a ReportRecord) -> Row<'a, 15> {
    let [received, forwarded, delivered, deleted] =
        one.times_ms.map(|time| time.map(|time| time as f64));
    [
        ("time_s", one.at.seconds().into()),
        ("node", node.into()),
        ("report_source", one.report.source.as_str().into()),
        ("report_created_ms", one.report.created_ms.into()),
        ("report_sequence", one.report.sequence.into()),
        ("source", one.bundle.source.as_str().into()),
        ("created_ms", one.bundle.created_ms.into()),
        ("sequence", one.bundle.sequence.into()),
        ("offset_bytes", one.bundle.offset.map(|offset| offset as f64).into()),
        ("total_bytes", one.total_bytes.map(|bytes| bytes as f64).into()),
        ("received_ms", received.into()),
        ("forwarded_ms", forwarded.into()),
        ("delivered_ms", delivered.into()),
        ("deleted_ms", deleted.into()),
        ("reason", one.reason.into()),
    ]
}

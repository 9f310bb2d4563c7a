//! Bundle nodes with their attachments, and the tables of their events.

use bundle::cla::{ClaSpec, ClaTransport, LinkProperties, RememberedParameters};
use bundle::{
    BundleEvent, BundleLabel, BundleNode, BundleProtocolAgent, ClaInterface, ClaLinkSpec,
    ContactStartSpec, DtnSpec, IncomingSessions, NeighbourConfig, ReportRecord, RouteRecord,
};
use topology::Topology;
use transport::quic::{Handshake, QuicSpec};
use transport::{LoadSpec, Side};
use units::{Direction, NodeId, Time};

use crate::nodes::addresses::{FlowAddresses, FlowHasher};
use crate::nodes::attachment::{AttachedNode, Attachment, ForwardingEntry, NodeInterface};
use crate::nodes::flow::{ExternalControllers, FlowEndpoint, build_cla_endpoint, draw_start_time};
use crate::nodes::proxy_chain::ProxyChain;
use crate::recorder::tables::{Row, Table};
use spec::{FlowSpec, RunSpec, TransportSpec};

/// The bundle nodes of a run.
pub struct BundleNodes {
    /// One attachment per node.
    pub attachments: Vec<Attachment>,
    /// Client and server of each link between bundle nodes.
    pub flow_endpoints: Vec<FlowEndpoint>,
    /// One proxy chain per link.
    pub proxy_chains: Vec<ProxyChain>,
}

fn is_bundle_link(flow: &FlowSpec) -> bool {
    matches!(flow.load, LoadSpec::Bundles)
}

/// Returns the index of the first flow between bundle nodes. All later flows must be of this kind.
///
/// # Errors
/// A later flow of another kind.
pub fn first_bundle_link(spec: &RunSpec) -> Result<usize, String> {
    let first_index = spec.flows.iter().position(is_bundle_link).unwrap_or(spec.flows.len());
    if let Some(flow) = spec.flows[first_index..].iter().find(|flow| !is_bundle_link(flow)) {
        return Err(format!("flow {}: links of bundle nodes come after all flows", flow.name));
    }
    let links = spec.dtn.as_ref().map_or(0, |dtn| dtn.links.len());
    if links != spec.flows.len() - first_index {
        return Err(format!("{links} links of bundle nodes, {}", spec.flows.len() - first_index));
    }
    Ok(first_index)
}

/// A bundle node under construction.
struct BundleNodeBuilder {
    name: String,
    node: NodeId,
    neighbours: Vec<NeighbourConfig>,
    cla_interfaces: Vec<ClaInterface>,
    interfaces: Vec<NodeInterface>,
}

fn uses_early_data(quic: &QuicSpec) -> bool {
    quic.handshake == Handshake::ZeroRtt
}

/// Adapts transport and CLA of a link to the contact plan.
fn apply_plan(flow: &FlowSpec, link: &ClaLinkSpec, dtn: &DtnSpec) -> (FlowSpec, ClaSpec) {
    let (mut flow, mut cla) = (flow.clone(), link.cla.clone());
    if let (TransportSpec::Udp(udp), ClaSpec::Ltp(ltp)) = (&flow.transport, &mut cla) {
        ltp.header_bytes = udp.header_bytes;
        ltp.segment_bytes = udp.payload_bytes.unwrap_or(ltp.segment_bytes);
    }
    if let (TransportSpec::Quic(quic), ContactStartSpec::Resume) =
        (&mut flow.transport, link.on_contact_start)
    {
        quic.handshake = Handshake::ZeroRtt;
    }
    let link_properties = LinkProperties::between(&dtn.plan, &flow.client, &flow.server)
        .filter(|_| link.adapts_to_plan);
    let Some(properties) = link_properties else { return (flow, cla) };
    match &mut flow.transport {
        TransportSpec::Quic(quic) => *quic = properties.adjust_quic(quic),
        TransportSpec::Tcp(tcp) => {
            (tcp.client, tcp.server) =
                (properties.adjust_tcp(&tcp.client), properties.adjust_tcp(&tcp.server));
        }
        _ => {}
    }
    let layer = properties.adjust_cla(&cla);
    (flow, layer)
}

/// Builds the nodes of `dtn`, with links from flow `first_index` and attachments from `first_attachment`.
///
/// # Errors
/// An invalid specification; the message names the reason.
pub fn build(
    spec: &RunSpec,
    dtn: &DtnSpec,
    first_index: usize,
    first_attachment: usize,
    topology: &Topology,
    controllers: &mut ExternalControllers<'_>,
) -> Result<BundleNodes, String> {
    let builder = |name: &String| {
        let node = topology.node_id(name).ok_or(format!("unknown node {name:?}"))?;
        let (neighbours, cla_interfaces, interfaces) = (Vec::new(), Vec::new(), Vec::new());
        Ok(BundleNodeBuilder { name: name.clone(), node, neighbours, cla_interfaces, interfaces })
    };
    let mut builders =
        dtn.nodes.iter().map(|node| builder(&node.name)).collect::<Result<Vec<_>, String>>()?;
    let (mut flow_endpoints, mut proxy_chains) = (Vec::new(), Vec::new());
    for (index, flow) in spec.flows.iter().enumerate().skip(first_index) {
        let error = |error: String| format!("flow {}: {error}", flow.name);
        let link = dtn.links.iter().find(|link| link.flow == flow.name);
        let link = link.ok_or_else(|| error("it belongs to no link of bundle nodes".to_owned()))?;
        let (flow, cla) = &apply_plan(flow, link, dtn);
        let find = |name: &str| {
            let found = builders.iter().position(|builder| builder.name == name);
            found.ok_or_else(|| error(format!("unknown bundle node {name:?}")))
        };
        let endpoints = [find(&flow.client)?, find(&flow.server)?];
        if endpoints[0] == endpoints[1] {
            return Err(error("it connects a node with itself".to_owned()));
        }
        proxy_chains.push(ProxyChain::new(
            topology,
            builders[endpoints[0]].node,
            builders[endpoints[1]].node,
            &[],
        )?);
        let udp_header_bytes = match &flow.transport {
            TransportSpec::Quic(quic) if uses_early_data(quic) && !cla.supports_early_data() => {
                return Err(error(
                    "its convergence layer forbids bundles in early data".to_owned(),
                ));
            }
            TransportSpec::Quic(quic) => u32::from(quic.header_bytes),
            TransportSpec::Tcp(_)
                if matches!(
                    link.on_contact_start,
                    ContactStartSpec::Resume | ContactStartSpec::LinkUp
                ) =>
            {
                return Err(error(
                    "TCP supports neither resumption nor link_up at the start of a contact"
                        .to_owned(),
                ));
            }
            TransportSpec::Tcp(tcp) => u32::from(tcp.client.header_bytes) - 12,
            TransportSpec::Udp(_) if link.on_contact_start != ContactStartSpec::Keep => {
                return Err(error(
                    "UDP has no connection to restore at the start of a contact".to_owned(),
                ));
            }
            TransportSpec::Udp(udp) => u32::from(udp.header_bytes),
            TransportSpec::Web { .. } => {
                return Err(error("bundle nodes use QUIC, TCP or UDP".to_owned()));
            }
        };
        let is_connectionless = cla.transport() == ClaTransport::Udp;
        if let ClaSpec::Ltp(ltp) = &cla
            && ltp.rate_bit_s.is_none()
            && LinkProperties::between(&dtn.plan, &flow.client, &flow.server).is_none()
        {
            return Err(error("LTP has no rate from a contact or from the link".to_owned()));
        }
        let addresses = FlowAddresses::new(index, spec.flows.len(), udp_header_bytes);
        let interface_ids = endpoints
            .map(|builder| (first_attachment + builder, builders[builder].cla_interfaces.len()));
        for (local, remote, side) in [(0, 1, Side::Client), (1, 0, Side::Server)] {
            let peer = (builders[endpoints[remote]].name.clone(), builders[endpoints[remote]].node);
            let place = &mut builders[endpoints[local]];
            let is_initiator = side == Side::Client;
            let neighbour = NeighbourConfig {
                neighbour: peer.0,
                interface: interface_ids[local].1,
                // Both sides can start over UDP, and no connection returns responses to the initiator.
                can_send: is_initiator || link.shared || is_connectionless,
                can_open: is_initiator || is_connectionless,
                opens_with_contact: link.opens_with_contact,
                closes_after_contact: link.closes_after_contact,
                on_contact_start: link.on_contact_start,
                needs_link_state: cla.needs_link_state(),
            };
            let eid = &dtn.nodes[endpoints[local]].eid;
            let incoming_sessions = IncomingSessions::default();
            let app_builder = incoming_sessions.app_builder(cla, eid);
            let endpoint = build_cla_endpoint(
                spec.seed,
                flow,
                side,
                cla.transport(),
                app_builder,
                controllers,
            )
            .map_err(error)?;
            place.neighbours.push(neighbour);
            let remembered = (link.on_contact_start == ContactStartSpec::Resume)
                .then(RememberedParameters::default);
            place.cla_interfaces.push(ClaInterface {
                endpoint,
                cla: cla.clone(),
                incoming: incoming_sessions,
                remembered,
            });
            let direction = if is_initiator { Direction::Up } else { Direction::Down };
            let entry = ForwardingEntry::new(topology, place.node, peer.1, interface_ids[remote]);
            place.interfaces.push(NodeInterface {
                flow: index as u32,
                user: flow.user,
                node: place.node,
                direction,
                flow_hasher: FlowHasher::new(addresses),
                forwarding: [entry; 2],
            });
            let congestion =
                if is_initiator { &flow.client_congestion } else { &flow.server_congestion };
            flow_endpoints.push(FlowEndpoint {
                flow: flow.name.clone(),
                side,
                congestion: congestion.name.clone(),
                addresses,
                start: draw_start_time(spec.seed, flow),
                interface_id: interface_ids[local],
                is_bundle_node: true,
            });
        }
    }
    let mut attachments = Vec::new();
    for (place, node) in builders.into_iter().zip(&dtn.nodes) {
        let bpa = BundleProtocolAgent::new(dtn, &place.name, &place.neighbours)
            .map_err(|error| format!("bundle node {}: {error}", place.name))?;
        let node = BundleNode::new(bpa, place.cla_interfaces).with_spec(node);
        let node = AttachedNode::Bundle(Box::new(node));
        attachments.push(Attachment { node, interfaces: place.interfaces });
    }
    Ok(BundleNodes { attachments, flow_endpoints, proxy_chains })
}

/// Returns the tables `bundles`, `routes`, `reports` and `stored` of the nonempty kinds.
pub fn tables(attachments: &[Attachment]) -> Vec<Table> {
    let nodes = attachments.iter().filter_map(|attachment| match &attachment.node {
        AttachedNode::Bundle(node) => Some(node),
        AttachedNode::Other(_) => None,
    });
    let bpas: Vec<&BundleProtocolAgent> = nodes.map(|node| node.bpa()).collect();
    if bpas.is_empty() {
        return Vec::new();
    }
    let mut bundles = Table::new("bundles");
    let mut rows: Vec<(Time, usize, &BundleEvent)> = bpas
        .iter()
        .enumerate()
        .flat_map(|(node, bpa)| bpa.events().iter().map(move |record| (record.at, node, record)))
        .collect();
    rows.sort_by_key(|(at, node, _)| (*at, *node));
    for (_, node, record) in rows {
        bundles.push_row(&bundles_row(bpas[node].name(), record));
    }
    let mut routes = Table::new("bundle_routes");
    let mut reports = Table::new("bundle_status_reports");
    for bpa in &bpas {
        bpa.routes().iter().for_each(|one| routes.push_row(&routes_row(bpa.name(), one)));
        bpa.reports().iter().for_each(|one| reports.push_row(&reports_row(bpa.name(), one)));
    }
    let mut stored = Table::new("bundle_store");
    for agent in &bpas {
        for (bundle, received_at) in agent.stored_bundles() {
            let name = BundleLabel::from_bundle(bundle);
            stored.push_row(&[
                ("node", agent.name().into()),
                ("received_s", received_at.seconds().into()),
                ("source", name.source.as_str().into()),
                ("created_ms", name.created_ms.into()),
                ("sequence", name.sequence.into()),
                ("offset_bytes", name.offset.map(|offset| offset as f64).into()),
                ("payload_bytes", bundle.payload_bytes().into()),
            ]);
        }
    }
    [bundles, routes, reports, stored].into_iter().filter(|table| table.row_count() > 0).collect()
}

fn bundles_row<'a>(node: &'a str, one: &'a BundleEvent) -> Row<'a, 12> {
    [
        ("time_s", one.at.seconds().into()),
        ("node", node.into()),
        ("event", one.event.name().into()),
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
        ("to", one.destination.as_str().into()),
        ("decision", one.decision.into()),
        ("next", one.next_hop.as_deref().unwrap_or("").into()),
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

//! Splitting proxies: builds one node for each TCP flow and each proxy on its path.

use topology::{NodeKind, Topology};
use transport::pep::{ConnectionPool, HandshakeMode, Proxy, ProxyConfig, ProxySpec, SocketSpec};
use units::{NodeId, RandomStream, Span};

use crate::nodes::attachment::Labelled;
use crate::nodes::flow::{ExternalControllers, controller_builder};
use crate::nodes::proxy_chain::ProxyChain;
use spec::{CongestionSpec, RunSpec};

/// The label of one flow's proxy at a node, for results and messages.
pub struct FlowProxy {
    /// The name of the flow.
    pub flow: String,
    /// The index of the flow.
    pub flow_index: usize,
    /// The name of the node.
    pub node: String,
    /// The controllers of the sockets towards the client and towards the server.
    pub congestion: [String; 2],
}

/// The names of a proxy's sockets in results, in the sequence of its interfaces.
pub const SOCKET_NAMES: [&str; 2] = ["client_side", "server_side"];

/// Returns the nodes of the run's proxies, in the sequence of `spec.proxies`.
///
/// # Errors
/// A proxy at an unknown node, at a node of another kind, twice at one node, or with a buffer below one segment.
pub fn resolve_nodes(spec: &RunSpec, topology: &Topology) -> Result<Vec<NodeId>, String> {
    let mut nodes = Vec::new();
    for proxy in &spec.proxies {
        let error = |text: &str| Err(format!("proxy {}: {text}", proxy.node));
        let Some(node) = topology.node_id(&proxy.node) else {
            return error("unknown node");
        };
        if topology.node_kind(node) != NodeKind::Proxy {
            return error("its node is not of kind proxy");
        }
        if nodes.contains(&node) {
            return error("its node has a proxy already");
        }
        for (name, socket) in SOCKET_NAMES.into_iter().zip([&proxy.client_side, &proxy.server_side])
        {
            if proxy.buffer_bytes < u64::from(socket.tcp.mss_bytes) {
                return error(&format!(
                    "buffer_bytes is {}, expected at least a segment of {name}, {} bytes",
                    proxy.buffer_bytes, socket.tcp.mss_bytes
                ));
            }
        }
        nodes.push(node);
    }
    Ok(nodes)
}

/// Builds the proxies along the chain of the flow with index `flow`.
pub fn build(
    spec: &RunSpec,
    flow: usize,
    route: &ProxyChain,
    topology: &Topology,
    controllers: &mut ExternalControllers<'_>,
) -> Result<Vec<Labelled<FlowProxy>>, String> {
    let flow_name = &spec.flows[flow].name;
    let proxy_at = |node: NodeId| {
        let name = topology.node_name(node);
        spec.proxies.iter().find(|proxy| proxy.node == name)
    };
    let proxies: Vec<&ProxySpec> =
        route.proxies().iter().filter_map(|node| proxy_at(*node)).collect();
    let mut built: Vec<Labelled<FlowProxy>> = Vec::new();
    for (index, proxy) in proxies.iter().enumerate() {
        let hop = index + 1;
        let previous = index.checked_sub(1).map(|index| proxies[index]);
        let next = proxies.get(hop);
        let pool = |peer: &SocketSpec, near_hop| ConnectionPool {
            peer: peer.clone(),
            rtt: Span(route.round_trip_ns(topology, near_hop)),
        };
        if proxy.handshake == HandshakeMode::Pooled && next.is_none() {
            return Err(format!(
                "proxy {}: handshake is pooled, but flow {flow_name} passes no other proxy after it",
                proxy.node
            ));
        }
        let mut build_controller = |name: &str, socket: &SocketSpec| {
            let congestion =
                CongestionSpec { name: socket.congestion.clone(), options: socket.options.clone() };
            let entity = format!("{flow_name}.{}.{name}", proxy.node);
            let config = cc::ControllerConfig {
                mss: u64::from(socket.tcp.mss_bytes),
                initial_window: socket.tcp.initial_window_bytes,
                initial_rtt: Span(socket.tcp.initial_rto_ns),
                seed: RandomStream::named(spec.seed, &entity, "congestion control").bits(),
                is_paced: socket.tcp.pacing,
            };
            controller_builder(&congestion, config, controllers)
                .map_err(|error| format!("proxy {}: {name}: {error}", proxy.node))
        };
        let builders = [
            build_controller(SOCKET_NAMES[0], &proxy.client_side)?,
            build_controller(SOCKET_NAMES[1], &proxy.server_side)?,
        ];
        let proxy_config = ProxyConfig {
            spec: (*proxy).clone(),
            build_controllers: builders,
            inbound_pool: previous
                .filter(|previous| previous.handshake == HandshakeMode::Pooled)
                .map(|before| pool(&before.server_side, hop - 1)),
            outbound_pool: next
                .filter(|_| proxy.handshake == HandshakeMode::Pooled)
                .map(|next| pool(&next.client_side, hop)),
        };
        let label = FlowProxy {
            flow: flow_name.clone(),
            flow_index: flow,
            node: proxy.node.clone(),
            congestion: [&proxy.client_side, &proxy.server_side]
                .map(|side| side.congestion.clone()),
        };
        built.push((label, Box::new(Proxy::new(proxy_config))));
    }
    Ok(built)
}

//! Splitting proxies: a node for each TCP flow and proxy on its way, from the specification.

use path::{NodeKind, Topology};
use transport::pep::{Parts, Pool, Proxy, ProxySpec, Setup, SocketSpec};
use units::{NodeId, RandomStream, Span};

use crate::flow::{Controllers, make_controller};
use crate::route::Route;
use crate::seat::Known;
use spec::{CongestionSpec, RunSpec};

/// One flow's proxy at a node, for those who tell of it.
pub struct FlowProxy {
    /// The flow's name.
    pub flow: String,
    /// The flow's place among all.
    pub number: usize,
    /// The node's name.
    pub node: String,
    /// Controllers of its sockets towards the client and towards the server.
    pub congestion: [String; 2],
}

/// Names of a proxy's sockets in results, in the order of its ends.
pub const SOCKETS: [&str; 2] = ["client_side", "server_side"];

/// Nodes of the run's proxies, in the order of `spec.proxies`.
///
/// # Errors
/// A proxy at a node that is none, or a node of kind `proxy` without one.
pub fn nodes(spec: &RunSpec, topology: &Topology) -> Result<Vec<NodeId>, String> {
    let mut nodes = Vec::new();
    for proxy in &spec.proxies {
        let error = |text: &str| Err(format!("proxy {}: {text}", proxy.node));
        let Some(node) = topology.node_id(&proxy.node) else {
            return error("there is no such node");
        };
        if topology.node_kind(node) != NodeKind::Proxy {
            return error("its node is not of kind proxy");
        }
        if nodes.contains(&node) {
            return error("its node has a proxy already");
        }
        for (name, socket) in SOCKETS.into_iter().zip([&proxy.client_side, &proxy.server_side]) {
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

/// The proxies of flow number `flow` along its route.
pub fn build(
    spec: &RunSpec,
    flow: usize,
    route: &Route,
    topology: &Topology,
    controllers: &mut Controllers<'_>,
) -> Result<Vec<Known<FlowProxy>>, String> {
    let flow_name = &spec.flows[flow].name;
    let at = |node: NodeId| {
        let name = topology.node_name(node);
        spec.proxies.iter().find(|proxy| proxy.node == name)
    };
    let proxies: Vec<&ProxySpec> = route.proxies().iter().filter_map(|node| at(*node)).collect();
    let mut made: Vec<Known<FlowProxy>> = Vec::new();
    for (index, proxy) in proxies.iter().enumerate() {
        let stop = index + 1;
        let before = index.checked_sub(1).map(|index| proxies[index]);
        let after = proxies.get(stop);
        let pool = |peer: &SocketSpec, near_stop| Pool {
            peer: peer.clone(),
            round_trip: Span(route.round_trip_ns(topology, near_stop)),
        };
        if proxy.setup == Setup::Pooled && after.is_none() {
            return Err(format!(
                "proxy {}: setup is pooled, but flow {flow_name} meets no other proxy after it",
                proxy.node
            ));
        }
        let mut make = |name: &str, socket: &SocketSpec| {
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
            make_controller(&congestion, config, controllers)
                .map_err(|error| format!("proxy {}: {name}: {error}", proxy.node))
        };
        let make = [make(SOCKETS[0], &proxy.client_side)?, make(SOCKETS[1], &proxy.server_side)?];
        let parts = Parts {
            spec: (*proxy).clone(),
            make,
            from_pool: before
                .filter(|before| before.setup == Setup::Pooled)
                .map(|before| pool(&before.server_side, stop - 1)),
            to_pool: after
                .filter(|_| proxy.setup == Setup::Pooled)
                .map(|after| pool(&after.client_side, stop)),
        };
        let told = FlowProxy {
            flow: flow_name.clone(),
            number: flow,
            node: proxy.node.clone(),
            congestion: [&proxy.client_side, &proxy.server_side]
                .map(|side| side.congestion.clone()),
        };
        made.push((told, Box::new(Proxy::new(parts))));
    }
    Ok(made)
}

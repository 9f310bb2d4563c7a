//! The nodes of a run, with their attachments to the topology.

pub mod addresses;
pub mod admission;
pub mod attachment;
pub mod bundle_nodes;
pub mod flow;
pub mod flow_host;
pub mod proxies;
pub mod proxy_chain;

use topology::Topology;
use transport::LoadSpec;
use transport::web::WebSpec;
use units::NodeId;

use crate::trace::WindowScaling;
use addresses::FlowHasher;
use attachment::Attachment;
use flow::{ExternalControllers, FlowEndpoint};
use proxies::FlowProxy;
use proxy_chain::ProxyChain;
use spec::{FlowSpec, RunSpec};

/// The nodes of a run.
#[derive(Default)]
pub struct NodeSet {
    /// The hosts, client and server of each flow, then the proxies of each flow.
    pub attachments: Vec<Attachment>,
    /// The labels of the first attachments.
    pub flow_endpoints: Vec<FlowEndpoint>,
    /// The labels of the attachments after the hosts.
    pub proxies: Vec<FlowProxy>,
    /// One chain per flow.
    pub proxy_chains: Vec<ProxyChain>,
}

impl NodeSet {
    /// Builds all nodes of `spec`.
    ///
    /// # Errors
    /// An invalid specification; the message names the reason.
    pub fn build(
        spec: &RunSpec,
        topology: &Topology,
        controllers: &mut ExternalControllers<'_>,
    ) -> Result<NodeSet, String> {
        let split = proxies::resolve_nodes(spec, topology)?;
        let (mut flow_endpoints, mut proxies, mut proxy_chains) =
            (Vec::new(), Vec::new(), Vec::new());
        let (mut attachments, mut proxy_attachments) = (Vec::new(), Vec::new());
        let refused = admission::refused_calls(spec)?;
        let first_bundle_link = bundle_nodes::first_bundle_link(spec)?;
        for (index, flow) in spec.flows[..first_bundle_link].iter().enumerate() {
            let error = |error: String| format!("flow {}: {error}", flow.name);
            let node = |name: &str| {
                topology.node_id(name).ok_or_else(|| error(format!("unknown node {name:?}")))
            };
            let (client, server) = (node(&flow.client)?, node(&flow.server)?);
            let split: &[NodeId] = if flow.transport.tcp().is_some() { &split } else { &[] };
            let chain = ProxyChain::new(topology, client, server, split).map_err(error)?;
            let flow_proxies = proxies::build(spec, index, &chain, topology, controllers)?;
            let position = (index, spec.flows.len());
            let refused = refused.contains(&index);
            let endpoints =
                flow::build(spec.seed, flow, position, refused, spec.trace, controllers)?;
            let flow_hasher = FlowHasher::new(endpoints[0].0.addresses);
            let attachment_indices = [2 * index, 2 * first_bundle_link + proxy_attachments.len()];
            let mut interfaces = chain
                .build_interfaces(topology, (index, flow.user), flow_hasher, attachment_indices)
                .into_iter();
            let mut attach = |node| Attachment::new(node, interfaces.next().unwrap_or_default());
            for (side, node) in endpoints {
                flow_endpoints.push(side);
                attachments.push(attach(node));
            }
            for (proxy, node) in flow_proxies {
                proxies.push(proxy);
                proxy_attachments.push(attach(node));
            }
            proxy_chains.push(chain);
        }
        attachments.append(&mut proxy_attachments);
        if let Some(dtn) = &spec.dtn {
            let bundle_nodes = bundle_nodes::build(
                spec,
                dtn,
                first_bundle_link,
                attachments.len(),
                topology,
                controllers,
            )?;
            flow_endpoints.extend(bundle_nodes.flow_endpoints);
            attachments.extend(bundle_nodes.attachments);
            proxy_chains.extend(bundle_nodes.proxy_chains);
        }
        Ok(NodeSet { attachments, flow_endpoints, proxies, proxy_chains })
    }

    /// Returns the window scaling of each host's TCP connections, which end at the next proxy.
    pub fn window_scaling(&self, spec: &RunSpec, topology: &Topology) -> Vec<WindowScaling> {
        let scaling_of = |(flow, chain): (&FlowSpec, &ProxyChain)| {
            let Some(tcp) = flow.transport.tcp() else { return [WindowScaling::default(); 2] };
            let proxy = |node: Option<&NodeId>| {
                let name = topology.node_name(*node?);
                spec.proxies.iter().find(|proxy| proxy.node == name)
            };
            let (first, last) = (proxy(chain.proxies().first()), proxy(chain.proxies().last()));
            let client_peer = first.map_or(&tcp.server, |proxy| &proxy.client_side.tcp);
            let server_peer = last.map_or(&tcp.client, |proxy| &proxy.server_side.tcp);
            [
                WindowScaling::new(&tcp.client, client_peer),
                WindowScaling::new(server_peer, &tcp.server),
            ]
        };
        spec.flows.iter().zip(&self.proxy_chains).flat_map(scaling_of).collect()
    }
}

/// Returns the page that each flow loads.
pub fn page_specs(spec: &RunSpec) -> Vec<Option<WebSpec>> {
    let page = |flow: &FlowSpec| match &flow.load {
        LoadSpec::Page(web) => Some((**web).clone()),
        _ => None,
    };
    spec.flows.iter().map(page).collect()
}

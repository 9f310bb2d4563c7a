//! The serialisable specification of a topology: nodes, the links between them, and their scheduled changes.

use link::{InFlightPolicy, QueueLimit, StageSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A topology of nodes and links.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TopologySpec {
    /// Nodes; a [`units::NodeId`] is an index into this list.
    pub nodes: Vec<NodeSpec>,
    /// Links.
    pub links: Vec<LinkSpec>,
    /// Scheduled changes, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<TopologyChange>,
}

/// A node of the topology.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Unique name.
    pub name: String,
    /// The role of the node.
    pub kind: NodeKind,
    /// Limit in bytes of the store-and-forward buffer; without a buffer, packets without a route are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_and_forward_bytes: Option<u64>,
}

/// The role of a node.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Sends and receives flows.
    Host,
    /// Forwards packets towards their destination.
    Router,
    /// Forwards packets, except those of TCP connections, which it splits.
    Proxy,
}

/// A link between two nodes: `up` carries packets from `client_side` to `server_side`, `down` the reverse direction.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Unique name; the key of the link's random streams.
    pub name: String,
    /// Name of the node nearer to the client.
    pub client_side: String,
    /// Name of the node nearer to the server.
    pub server_side: String,
    /// Stages from `client_side` to `server_side`, in the order of traversal.
    pub up: Vec<StageSpec>,
    /// Stages from `server_side` to `client_side`.
    pub down: Vec<StageSpec>,
}

/// Simultaneous changes at one instant, before any packet of that instant: a handover. All other state remains
/// unchanged.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TopologyChange {
    /// The time of the change.
    pub at_ns: u64,
    /// Links that enter or leave use. Initially, all links are in use. Routes contain only links in use; packets in
    /// flight on other links continue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkAdminState>,
    /// Static routes from this instant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteChange>,
    /// Updates of stages, applied after the scheduled updates of the stages at this instant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<ScheduledStageUpdate>,
}

/// Whether a link is in use from this instant.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct LinkAdminState {
    /// Name of the link.
    pub link: String,
    /// Whether the link is in use.
    pub enabled: bool,
}

/// A static route from `node` to `to`, or its removal.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct RouteChange {
    /// Name of the node with the route.
    pub node: String,
    /// Name of the destination, a host or a proxy.
    pub to: String,
    /// The route.
    pub route: RouteOverride,
}

/// The route of packets at a node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RouteOverride {
    /// The shortest route over links in use, the default.
    Shortest,
    /// This link, which must be in use.
    Link(String),
    /// No route: packets are dropped or buffered at this node.
    NoRoute,
}

/// An update of one stage.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ScheduledStageUpdate {
    /// `"<link>.up"` or `"<link>.down"`.
    pub simplex_link: String,
    /// Index of the stage, from 0.
    pub stage: u32,
    /// The update.
    pub update: StageUpdateSpec,
}

/// The update of a stage.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StageUpdateSpec {
    /// The delay, for packets that arrive from this instant.
    Delay {
        /// New one-way delay.
        delay_ns: u64,
    },
    /// The rate, from the next packet onwards.
    Rate {
        /// New rate, in bits per second.
        rate_bit_s: u64,
    },
    /// The queue limit, for packets that arrive from this instant. Queued packets remain.
    Limit {
        /// New limit.
        limit: Option<QueueLimit>,
    },
    /// The loss probability of Bernoulli loss from this instant.
    Loss {
        /// New loss probability.
        probability: f64,
    },
    /// The policy for the packets in the stage.
    InFlight {
        /// Whether they preserve their order, can be overtaken, or are dropped.
        policy: InFlightPolicy,
    },
    /// Whether the transmitter serves its queue.
    Enabled {
        /// The new state; transmitters are enabled initially.
        enabled: bool,
    },
}

//! The serialisable specification of a path: nodes, the links between them, and what of it changes
//! when.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{InFlight, Limit, StageSpec};

/// A graph of nodes and links.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    /// Nodes; a [`units::NodeId`] is an index into this list.
    pub nodes: Vec<NodeSpec>,
    /// Links.
    pub links: Vec<LinkSpec>,
    /// What changes, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<GraphChange>,
}

/// A node of the graph.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Unique name.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
    /// Bytes of packets that it holds while no way leads on from it for them; none: it drops them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_bytes: Option<u64>,
}

/// What a node does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Sends and receives flows.
    Host,
    /// Passes packets on towards their destination.
    Router,
    /// Passes packets on, except those of TCP, which it splits.
    Proxy,
}

/// A link between two nodes: `up` carries packets from `client_side` to `server_side`, `down` the
/// other way.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Unique name; keys the link's random streams.
    pub name: String,
    /// Name of the node nearer to the client.
    pub client_side: String,
    /// Name of the node nearer to the server.
    pub server_side: String,
    /// Stages from `client_side` to `server_side`, in the order a packet meets them.
    pub up: Vec<StageSpec>,
    /// Stages from `server_side` to `client_side`.
    pub down: Vec<StageSpec>,
}

/// What changes together at one instant, before any packet of that instant: a hand-over. Whatever it
/// does not name stays as it was.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GraphChange {
    /// The instant.
    pub at_ns: u64,
    /// Links that are in use from now on, or not. First all are. Routes lead over links in use only;
    /// what is on its way on the others goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkUse>,
    /// Ways that are set by hand from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<WayChange>,
    /// Changes of stages, applied after those that the stages themselves have at this instant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageChange>,
}

/// Whether a link is in use from now on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct LinkUse {
    /// Name of the link.
    pub link: String,
    /// Whether it is.
    pub in_use: bool,
}

/// Where packets for `to` go on from `node` from now on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct WayChange {
    /// Name of the node that they are at.
    pub node: String,
    /// Name of the host or proxy that they are for.
    pub to: String,
    /// Where they go on.
    pub way: Way,
}

/// How packets go on from a node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Over the fewest links in use, as where nothing is said.
    Shortest,
    /// Over this link, which must be in use.
    Link(String),
    /// Not at all: they are dropped there, or held.
    None,
}

/// A change of one stage.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct StageChange {
    /// `"<link>.up"` or `"<link>.down"`.
    pub line: String,
    /// Which of its stages, from 0.
    pub stage: u32,
    /// What changes.
    pub change: ChangeSpec,
}

/// What changes of a stage.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ChangeSpec {
    /// Its delay, for packets that arrive from now on.
    Delay {
        /// New one-way delay.
        delay_ns: u64,
    },
    /// Its rate, from the next packet on.
    Rate {
        /// New rate, in bits per second.
        rate_bit_s: u64,
    },
    /// The limit of its queue, for packets that arrive from now on; what waits stays.
    Limit {
        /// New limit.
        limit: Option<Limit>,
    },
    /// Its loss: Bernoulli from now on.
    Loss {
        /// New loss probability.
        probability: f64,
    },
    /// What becomes of the packets that it holds.
    InFlight {
        /// They stay in order, may be overtaken, or are lost.
        fate: InFlight,
    },
    /// Whether it serves those who wait.
    Serves {
        /// Whether it does; first it does.
        serves: bool,
    },
}

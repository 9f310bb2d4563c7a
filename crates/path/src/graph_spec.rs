//! The serialisable specification of a path: nodes and the links between them.

use serde::{Deserialize, Serialize};

use crate::StageSpec;

/// A graph of nodes and links.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    /// Nodes; a [`units::NodeId`] is an index into this list.
    pub nodes: Vec<NodeSpec>,
    /// Links.
    pub links: Vec<LinkSpec>,
}

/// A node of the graph.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Unique name.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
}

/// What a node does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
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
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
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

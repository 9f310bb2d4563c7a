//! Bundle nodes in a resolved run: whole numbers, the unit in the name.

use contacts::PlanSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::integrity::IntegritySpec;
use crate::layers::LayerSpec;
use crate::wire::Crc;

/// Bundle nodes, what they know of each other, and what they send.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DtnSpec {
    /// What time zero of the run is: milliseconds since 2000 (RFC 9171 section 4.2.6).
    pub epoch_ms: u64,
    /// The nodes; those of the plan have their names.
    pub nodes: Vec<NodeSpec>,
    /// Who has a connection to whom: each is a flow whose client opens it.
    pub links: Vec<LinkSpec>,
    /// What all nodes know of contacts.
    pub plan: PlanSpec,
    /// Nodes do not count what waits for their neighbours when they look for a way (CCSDS 734.3-B-1 section 3.2.6.2).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backlog_ignored: bool,
    /// Nodes flood; none: a bundle goes by static routes and the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epidemic: Option<EpidemicSpec>,
    /// A key that no node was given is made of its name, so that nothing secret is in a run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keys_of_names: bool,
    /// What they learn while they run, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeSpec>,
    /// Who sends what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub perf: Vec<PerfSpec>,
}

/// Every neighbour gets a copy that is not known to have one.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct EpidemicSpec {
    /// To how many neighbours a node gives a bundle, its destination beside them; none: to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
}

/// A bundle node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Name of its node in the graph and in the plan.
    pub name: String,
    /// Its node id (RFC 9171 section 4.2.5.2), as `ipn:1.0` or `dtn://one/`.
    pub eid: String,
    /// How much it stores, bytes; none: no bound.
    #[serde(default)]
    pub store_bytes: Option<u64>,
    /// Next hops that somebody has set by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<HandSpec>,
    /// How long it takes until a bundle is durable.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub store_ns: u64,
    /// When it stops, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<StopSpec>,
    /// What it does for the integrity of bundles; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<IntegritySpec>,
}

fn is_zero(found: &u64) -> bool {
    *found == 0
}

/// A node stops: its connections are gone without a word, and what comes to it is lost.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct StopSpec {
    /// When.
    pub at_ns: u64,
    /// When it goes on; none: never.
    #[serde(default)]
    pub until_ns: Option<u64>,
    /// Whether it still has what was durable.
    pub keeps: bool,
}

/// A next hop that somebody has set by hand.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct HandSpec {
    /// Bundles to this node; none: those that no other way is known for.
    pub to: Option<String>,
    /// Go to this one.
    pub via: String,
}

/// A way for connections of bundle nodes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Name of its flow.
    pub flow: String,
    /// The convergence layer.
    pub layer: LayerSpec,
    /// Whether the server sends its bundles over the client's connections too; else they are for what the client sends.
    pub shared: bool,
    /// Whether a connection is opened as soon as there is a contact, or when there is a bundle to send.
    pub with_contact: bool,
    /// Whether it is closed when the contact is over.
    pub closes: bool,
    /// What becomes of a connection that is there as a contact begins again.
    #[serde(default)]
    pub on_return: ReturnSpec,
    /// Whether timers and windows of its transport and layer are no shorter than the plan's light and dark ask for.
    #[serde(default = "by_plan")]
    pub by_plan: bool,
}

/// What becomes of a connection that is there as a contact begins again.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ReturnSpec {
    /// It is left alone: its transport waits for its timers.
    #[default]
    Alone,
    /// It is given up and another one opened.
    Reopen,
    /// The same, with a session that is resumed: bundles go as early data.
    Resume,
    /// Its transport is told that the way is there again.
    Cue,
}

impl ReturnSpec {
    /// Whether another connection is opened.
    pub fn opens(self) -> bool {
        matches!(self, ReturnSpec::Reopen | ReturnSpec::Resume)
    }
}

fn by_plan() -> bool {
    true
}

/// What nodes learn of contacts at an instant.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ChangeSpec {
    /// When.
    pub at_ns: u64,
    /// New contacts.
    #[serde(default)]
    pub add: Vec<contacts::ContactSpec>,
    /// Contacts that are no more, by what they say of where they are said.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// A client of dtnperf, and its server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PerfSpec {
    /// What it is called.
    pub name: String,
    /// The client's node.
    pub client: String,
    /// The server's node.
    pub server: String,
    /// The node that gets reports; none: the client's.
    #[serde(default)]
    pub monitor: Option<String>,
    /// When it begins.
    pub start_ns: u64,
    /// How much it sends.
    pub amount: AmountSpec,
    /// When it sends the next.
    pub pace: PaceSpec,
    /// Payload of a bundle.
    pub payload_bytes: u64,
    /// Lifetime of a bundle, and of its acknowledgement.
    pub lifetime_ns: u64,
    /// How urgent its bundles are.
    pub priority: contacts::Priority,
    /// Whether they take every way.
    #[serde(default)]
    pub critical: bool,
    /// Hops they may take; none: no matter.
    #[serde(default)]
    pub hop_limit: Option<u8>,
    /// CRC of primary and payload block; the primary block has CRC-16 where none is said.
    pub crc: Crc,
    /// Bundles must not be cut.
    pub whole: bool,
    /// Which reports are asked for.
    #[serde(default)]
    pub reports: ReportsSpec,
}

/// How much a client sends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AmountSpec {
    /// For so long.
    Time {
        /// How long.
        duration_ns: u64,
    },
    /// So much payload, the last bundle being smaller if need be.
    Data {
        /// How much.
        bytes: u64,
    },
}

/// When a client sends the next bundle.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PaceSpec {
    /// As long as fewer are not acknowledged by the server.
    Window {
        /// How many.
        bundles: u32,
    },
    /// At a rate of payload; nothing is acknowledged.
    Rate {
        /// The rate.
        bit_s: u64,
    },
}

/// Which status reports are asked for (RFC 9171 section 5.1), all with times.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ReportsSpec {
    /// When it is received.
    pub received: bool,
    /// When it is forwarded.
    pub forwarded: bool,
    /// When it is delivered.
    pub delivered: bool,
    /// When it is deleted.
    pub deleted: bool,
}

//! Bundle nodes in a resolved run: integers with the unit in the name.

use contacts::PlanSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cla::ClaSpec;
use crate::integrity_spec::IntegritySpec;
use crate::wire::Crc;

/// The bundle nodes of a run, their contact plan and their traffic.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DtnSpec {
    /// The DTN time at time zero of the run, in milliseconds since 2000 (RFC 9171 section 4.2.6).
    pub epoch_ms: u64,
    /// The nodes. Nodes of the contact plan use these names.
    pub nodes: Vec<BundleNodeSpec>,
    /// The connections between nodes. Each one is a flow; its client opens the connection.
    pub links: Vec<ClaLinkSpec>,
    /// The contact plan of all nodes.
    pub plan: PlanSpec,
    /// Route computation ignores the backlog of queues to neighbours (CCSDS 734.3-B-1 section 3.2.6.2).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backlog_ignored: bool,
    /// Epidemic routing. `None` means static routes and the contact plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epidemic: Option<EpidemicSpec>,
    /// Derives a key that is not configured from its name, so that the run contains no secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub derive_keys_from_names: bool,
    /// Contact plan changes during the run, sorted by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PlanChangeSpec>,
    /// The dtnperf clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub perf: Vec<DtnPerfSpec>,
}

/// Epidemic routing: every neighbour gets a copy unless it is known to have one.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct EpidemicSpec {
    /// The maximum number of neighbours that get a copy, not counting the destination. `None` means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
}

/// A bundle node.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct BundleNodeSpec {
    /// The name of the node in the topology and in the contact plan.
    pub name: String,
    /// The node ID (RFC 9171 section 4.2.5.2), such as `ipn:1.0` or `dtn://one/`.
    pub eid: String,
    /// The capacity of the bundle store in bytes. `None` means no limit.
    #[serde(default)]
    pub store_bytes: Option<u64>,
    /// Static routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<StaticRouteSpec>,
    /// The delay until a stored bundle is durable.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub store_delay_ns: u64,
    /// The failures of the node, sorted by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<NodeOutageSpec>,
    /// The integrity policy. `None` disables integrity processing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<IntegritySpec>,
}

fn is_zero(found: &u64) -> bool {
    *found == 0
}

/// A node failure: all connections end without a close, and the node discards all input.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct NodeOutageSpec {
    /// The start of the failure.
    pub at_ns: u64,
    /// The restart of the node. `None` means never.
    #[serde(default)]
    pub until_ns: Option<u64>,
    /// Whether durable bundles survive the failure.
    pub keeps_store: bool,
}

/// A static route.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct StaticRouteSpec {
    /// The destination node. `None` means every destination without another route.
    pub to: Option<String>,
    /// The next hop.
    pub via: String,
}

/// The parameters of connections between two bundle nodes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ClaLinkSpec {
    /// The name of the flow.
    pub flow: String,
    /// The CLA of the sessions.
    pub cla: ClaSpec,
    /// Whether the server also sends bundles over connections of the client. Otherwise only the client sends.
    pub shared: bool,
    /// Whether a connection is opened at the start of a contact, or only when a bundle is due.
    pub opens_with_contact: bool,
    /// Whether the connection is closed at the end of the contact.
    pub closes_after_contact: bool,
    /// The action on an existing connection when a contact starts again.
    #[serde(default)]
    pub on_contact_start: ContactStartSpec,
    /// Whether planned light times and gaps set lower bounds for timers and windows of transport and CLA.
    #[serde(default = "by_plan")]
    pub adapts_to_plan: bool,
}

/// The action on an existing connection when a contact starts again.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ContactStartSpec {
    /// Keeps the connection: its transport waits for its timers.
    #[default]
    Keep,
    /// Aborts the connection and opens another one.
    Reopen,
    /// Like `reopen`, with a resumed session: bundles are sent as early data.
    Resume,
    /// Signals to the transport that the link to the peer is up again.
    LinkUp,
}

impl ContactStartSpec {
    /// Returns whether another connection is opened.
    pub fn opens_connection(self) -> bool {
        matches!(self, ContactStartSpec::Reopen | ContactStartSpec::Resume)
    }
}

fn by_plan() -> bool {
    true
}

/// A change of the contact plan at one instant.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PlanChangeSpec {
    /// The time of the change.
    pub at_ns: u64,
    /// The added contacts.
    #[serde(default)]
    pub add: Vec<contacts::ContactSpec>,
    /// The removed contacts, by the label of their origin.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// A dtnperf client and its server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DtnPerfSpec {
    /// The name of the client in results.
    pub name: String,
    /// The node of the client.
    pub client: String,
    /// The node of the server.
    pub server: String,
    /// The node that receives status reports. `None` means the node of the client.
    #[serde(default)]
    pub monitor: Option<String>,
    /// The start time.
    pub start_ns: u64,
    /// The amount of data to send.
    pub amount: DtnPerfAmount,
    /// The pace of sending.
    pub pace: DtnPerfPace,
    /// The payload size of a bundle.
    pub payload_bytes: u64,
    /// The lifetime of a bundle and of its acknowledgement.
    pub lifetime_ns: u64,
    /// The priority of the bundles.
    pub priority: contacts::Priority,
    /// Whether the bundles are critical: a copy is forwarded on every route.
    #[serde(default)]
    pub critical: bool,
    /// The hop limit. `None` omits the hop count block.
    #[serde(default)]
    pub hop_limit: Option<u8>,
    /// The CRC type of the primary and payload blocks. Without one, the primary block still has CRC-16.
    pub crc: Crc,
    /// Whether the bundles must not be fragmented.
    pub do_not_fragment: bool,
    /// The requested status reports.
    #[serde(default)]
    pub reports: StatusReportSpec,
}

/// The amount of data that a client sends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DtnPerfAmount {
    /// Sends for a limited time.
    Time {
        /// The duration.
        duration_ns: u64,
    },
    /// Sends a limited amount of payload. The last bundle can be smaller.
    Data {
        /// The number of payload bytes.
        bytes: u64,
    },
}

/// The pace at which a client sends bundles.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DtnPerfPace {
    /// Limits the number of unacknowledged bundles; the server acknowledges each one.
    Window {
        /// The window in bundles.
        bundles: u32,
    },
    /// Sends payload at a constant rate, without acknowledgements.
    Rate {
        /// The rate.
        bit_s: u64,
    },
}

/// The requested status reports (RFC 9171 section 5.1), all with times.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct StatusReportSpec {
    /// Report of bundle reception.
    pub received: bool,
    /// Report of bundle forwarding.
    pub forwarded: bool,
    /// Report of bundle delivery.
    pub delivered: bool,
    /// Report of bundle deletion.
    pub deleted: bool,
}

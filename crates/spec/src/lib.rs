//! The resolved run: what the planner writes and the engine reads. Every number is whole and names
//! its unit; nothing is left to a default that a reader of the plan could not see. What is read from text is read here, once:
//! most of compiling the simulation was that, and this crate is compiled for its size (docs/decisions/0065).

use bundle::DtnSpec;
use path::{ChannelSpec, GraphSpec, RadioSpec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use transport::LoadSpec;
use transport::pep::ProxySpec;
use transport::quic::QuicSpec;
use transport::tcp::TcpSpec;
use transport::udp::UdpSpec;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Seed of every random stream.
    pub seed: u64,
    /// Length of the run.
    pub duration_ns: u64,
    /// Sampling interval of the series.
    pub sample_ns: u64,
    /// The path.
    pub graph: GraphSpec,
    /// The flows over it.
    pub flows: Vec<FlowSpec>,
    /// Flows that are measured together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSpec>,
    /// Calls that are only made while they fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admissions: Vec<AdmissionSpec>,
    /// Splitting proxies, at nodes of kind `proxy`.
    #[serde(default)]
    pub proxies: Vec<ProxySpec>,
    /// Bundle nodes; the flows between them come after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtn: Option<DtnSpec>,
    /// Per-packet traces to keep.
    #[serde(default)]
    pub trace: TraceSpec,
}

impl RunSpec {
    /// Reads a run.
    ///
    /// # Errors
    /// What is no run, with its line and column.
    pub fn from_json(text: &str) -> serde_json::Result<RunSpec> {
        serde_json::from_str(text)
    }

    /// What a run looks like, as it is written: a field is required unless it is left out where it says nothing.
    pub fn schema() -> serde_json::Value {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        settings.into_generator().into_root_schema_for::<RunSpec>().to_value()
    }
}

/// Reads a channel.
///
/// # Errors
/// What is no channel, with its line and column.
pub fn channel(text: &str) -> serde_json::Result<ChannelSpec> {
    serde_json::from_str(text)
}

/// Reads a radio link.
///
/// # Errors
/// What is no radio link, with its line and column.
pub fn radio(text: &str) -> serde_json::Result<RadioSpec> {
    serde_json::from_str(text)
}

fn is_first(user: &u32) -> bool {
    *user == 0
}

/// One flow: a client, a server, and what they do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Unique name; keys the flow's random streams.
    pub name: String,
    /// Name of the client's node.
    pub client: String,
    /// Name of the server's node.
    pub server: String,
    /// Whose packets these are, for links that users share.
    #[serde(default, skip_serializing_if = "is_first")]
    pub user: u32,
    /// Earliest start.
    pub start_ns: u64,
    /// The start is delayed by a seeded uniform draw from 0 to this (drop-tail phase effects,
    /// Floyd and Jacobson 1992, are otherwise the result).
    pub start_jitter_ns: u64,
    /// Controller of the client's sending side.
    pub client_congestion: CongestionSpec,
    /// Controller of the server's sending side.
    pub server_congestion: CongestionSpec,
    /// The transport.
    pub transport: TransportSpec,
    /// What is sent.
    pub load: LoadSpec,
}

/// Flows of which the time series have one entry together; what is counted once a run is counted for each.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// Name of the series, which no flow has.
    pub name: String,
    /// Names of the flows.
    pub flows: Vec<String>,
    /// Names of the links that these flows alone use, one each: their series is `"<name>.access"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Whether each flow and link has a series of its own too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each: bool,
}

/// Call admission: a flow begins only if it and those that have begun and not ended fit into a rate, each with what its
/// sources send while they are on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AdmissionSpec {
    /// What it is called.
    pub name: String,
    /// Names of the flows.
    pub flows: Vec<String>,
    /// The rate that is kept for them, each way, all headers counted.
    pub rate_bit_s: u64,
}

/// A congestion controller by name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CongestionSpec {
    /// Name in the catalogue, or of a controller given from outside.
    pub name: String,
    /// Its options.
    #[serde(default)]
    pub options: serde_json::Value,
}

/// A transport and its options.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TransportSpec {
    /// QUIC (RFC 9000) by quinn-proto.
    Quic(QuicSpec),
    /// TCP (RFC 9293). Every stream of a load is a connection of its own.
    Tcp(Box<TcpSides>),
    /// Datagrams over UDP (RFC 768), which nothing controls: loads of datagrams only.
    Udp(UdpSpec),
    /// What a browser has: both, for loads of pages.
    Web {
        /// QUIC's options.
        quic: QuicSpec,
        /// TCP's options.
        tcp: Box<TcpSides>,
        /// Controllers of TCP connections, client and server; none: the flow's.
        #[serde(default)]
        tcp_congestion: Option<(CongestionSpec, CongestionSpec)>,
    },
}

impl TransportSpec {
    /// Options of its TCP connections, if it has any.
    pub fn tcp(&self) -> Option<&TcpSides> {
        match self {
            TransportSpec::Quic(_) | TransportSpec::Udp(_) => None,
            TransportSpec::Tcp(tcp) | TransportSpec::Web { tcp, .. } => Some(tcp),
        }
    }
}

/// Options of both ends of a TCP flow.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TcpSides {
    /// The client's.
    pub client: TcpSpec,
    /// The server's.
    pub server: TcpSpec,
}

/// Which per-packet traces a run keeps.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// One qlog file per flow and side.
    #[serde(default)]
    pub qlog: bool,
    /// One pcapng file per flow and side.
    #[serde(default)]
    pub pcapng: bool,
    /// The table of packets: each packet's times, place and kind.
    #[serde(default)]
    pub packets: bool,
    /// The table of stages: every step of every packet, and with it the table of packets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stages: bool,
    /// The table of what only TCP counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tcp: bool,
}

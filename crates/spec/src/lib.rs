//! The resolved run, the interface between planner and engine. Every number is an integer, and its name contains the
//! unit. The plan contains every value: a default would be invisible to its reader. This crate alone parses the text.
//! Parsing dominated the compile time of the simulation; this crate is compiled for size (docs/decisions/0065).

use bundle::DtnSpec;
use bundle::cla::{ClaSpec, ClaTransport};
use link::{ChannelSpec, RadioSpec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::json;
use topology::TopologySpec;
use transport::LoadSpec;
use transport::pep::ProxySpec;
use transport::quic::QuicSpec;
use transport::tcp::TcpSpec;
use transport::udp::UdpSpec;

/// A resolved run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The seed of every random stream.
    pub seed: u64,
    /// The length of the run.
    pub duration_ns: u64,
    /// The sampling interval of the series.
    pub sample_interval_ns: u64,
    /// The topology: nodes and links.
    pub graph: TopologySpec,
    /// The flows over the topology.
    pub flows: Vec<FlowSpec>,
    /// Groups of flows, each with a common measurement series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSpec>,
    /// Call admission: a call starts only if it fits into the rate of its group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admissions: Vec<AdmissionSpec>,
    /// Splitting proxies, at nodes of kind `proxy`.
    #[serde(default)]
    pub proxies: Vec<ProxySpec>,
    /// Bundle nodes. The flows between them follow all other flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtn: Option<DtnSpec>,
    /// The per-packet traces that the run writes.
    #[serde(default)]
    pub trace: TraceSpec,
}

impl RunSpec {
    /// Parses a run.
    ///
    /// # Errors
    /// Invalid input, with line and column.
    pub fn from_json(text: &str) -> serde_json::Result<RunSpec> {
        serde_json::from_str(text)
    }

    /// Returns the schema of a run as serialised: a field is required unless its default is omitted.
    pub fn schema() -> serde_json::Value {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        settings.into_generator().into_root_schema_for::<RunSpec>().to_value()
    }
}

/// Parses a channel.
///
/// # Errors
/// Invalid input, with line and column.
pub fn parse_channel(text: &str) -> serde_json::Result<ChannelSpec> {
    serde_json::from_str(text)
}

/// Parses a radio link.
///
/// # Errors
/// Invalid input, with line and column.
pub fn parse_radio(text: &str) -> serde_json::Result<RadioSpec> {
    serde_json::from_str(text)
}

/// Returns the descriptors of the convergence layers, each with its `transport`.
///
/// # Errors
/// A member that its kind alone does not describe.
pub fn convergence_layers() -> serde_json::Result<Vec<serde_json::Value>> {
    ClaSpec::DESCRIPTORS
        .iter()
        .map(|member| {
            let cla: ClaSpec = serde_json::from_value(json!({ "kind": member.spec_kind }))?;
            let mut value = serde_json::to_value(member)?;
            value["transport"] = match cla.transport() {
                ClaTransport::Quic(_) => "quic".into(),
                ClaTransport::Tcp => "tcp".into(),
                ClaTransport::Udp => "udp".into(),
            };
            Ok(value)
        })
        .collect()
}

fn is_first(user: &u32) -> bool {
    *user == 0
}

/// A flow: client, server, transport and load.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// The unique name. It selects the random streams of the flow.
    pub name: String,
    /// The name of the client's node.
    pub client: String,
    /// The name of the server's node.
    pub server: String,
    /// The user of the packets, for links that users share.
    #[serde(default, skip_serializing_if = "is_first")]
    pub user: u32,
    /// The earliest start.
    pub start_ns: u64,
    /// The upper bound of the start delay, a seeded uniform draw. Without it, results show drop-tail phase effects
    /// (Floyd and Jacobson 1992).
    pub start_jitter_ns: u64,
    /// The controller of the client's sender.
    pub client_congestion: CongestionSpec,
    /// The controller of the server's sender.
    pub server_congestion: CongestionSpec,
    /// The transport.
    pub transport: TransportSpec,
    /// The load.
    pub load: LoadSpec,
}

/// A group of flows with one common time series. Counters of the whole run remain separate for each flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// The name of the series. It differs from all flow names.
    pub name: String,
    /// The names of the flows.
    pub flows: Vec<String>,
    /// The names of the links that only these flows use, one per flow. Their series is `"<name>.access"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Whether each flow and each link also has a separate series.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_flow: bool,
}

/// Call admission: a flow starts only if its rate and the rates of all active flows fit into a limit. The rate of a
/// flow is the rate of its sources during a talk spurt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AdmissionSpec {
    /// The name in messages.
    pub name: String,
    /// The names of the flows.
    pub flows: Vec<String>,
    /// The reserved rate per direction, including all headers.
    pub rate_bit_s: u64,
}

/// A congestion controller by name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CongestionSpec {
    /// The name in the catalogue, or of an external controller.
    pub name: String,
    /// The options of the controller.
    #[serde(default)]
    pub options: serde_json::Value,
}

/// A transport and its options.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TransportSpec {
    /// QUIC (RFC 9000).
    Quic(QuicSpec),
    /// TCP (RFC 9293). Every stream of a load uses a separate connection.
    Tcp(Box<TcpSides>),
    /// UDP datagrams (RFC 768) without congestion control, for datagram loads only.
    Udp(UdpSpec),
    /// The transports of a browser, QUIC and TCP, for page loads only.
    Web {
        /// The options of QUIC.
        quic: QuicSpec,
        /// The options of TCP.
        tcp: Box<TcpSides>,
        /// The controllers of TCP connections, client and server. The default is the controllers of the flow.
        #[serde(default)]
        tcp_congestion: Option<(CongestionSpec, CongestionSpec)>,
    },
}

impl TransportSpec {
    /// Returns the options of the TCP connections, if the transport uses TCP.
    pub fn tcp(&self) -> Option<&TcpSides> {
        match self {
            TransportSpec::Quic(_) | TransportSpec::Udp(_) => None,
            TransportSpec::Tcp(tcp) | TransportSpec::Web { tcp, .. } => Some(tcp),
        }
    }
}

/// The options of both endpoints of a TCP flow.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TcpSides {
    /// The options of the client.
    pub client: TcpSpec,
    /// The options of the server.
    pub server: TcpSpec,
}

/// The per-packet traces that a run writes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// One qlog file per flow and side.
    #[serde(default)]
    pub qlog: bool,
    /// One pcapng file per flow and side.
    #[serde(default)]
    pub pcapng: bool,
    /// The table of packets: times, location and kind of each packet.
    #[serde(default)]
    pub packets: bool,
    /// The table of stages: every step of every packet. It implies the table of packets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub packet_steps: bool,
    /// The table of TCP-specific counters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tcp: bool,
}

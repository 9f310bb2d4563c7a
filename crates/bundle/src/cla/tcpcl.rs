//! TCPCLv4 (RFC 9174) on one TCP connection, with TLS if the driver has keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::{AppEvent, Streams};
use units::{Descriptor, Opt, Span, Time};

use super::messages::{SessInit, WireFormat};
use super::parameters::{INCOMING_BYTES, RESPONSE_TIMEOUT_NS, SEGMENT_BYTES, TRANSFER_BYTES};
use super::rfc9174::{Rfc9174Session, SessionConfig, StreamMapping};
use super::{ClaFactory, ClaSpec, ClaTransport, ConnectionParameters, LinkProperties, TlsPolicy};
use crate::{Role, Session, SessionCommand, SessionEvent};

/// The port that IANA has assigned (section 9.1).
pub const PORT: u16 = 4556;

/// Options of TCPCLv4.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct TcpclSpec {
    /// The keepalive interval in seconds (section 5.1.1); 0 disables keepalives.
    pub keepalive_s: u16,
    /// The maximum segment length, sent and received.
    pub segment_bytes: u64,
    /// The maximum length of a received bundle.
    pub transfer_bytes: u64,
    /// The limit of partially received bundles in bytes.
    pub incoming_bytes: u64,
    /// The timeout for SESS_INIT of the peer and for its reply to SESS_TERM.
    pub response_timeout_ns: u64,
    /// The TLS policy. Every policy other than `no` requires keys of the transport.
    pub tls: TlsPolicy,
}

impl Default for TcpclSpec {
    fn default() -> TcpclSpec {
        TcpclSpec {
            keepalive_s: 0,
            segment_bytes: SEGMENT_BYTES,
            transfer_bytes: TRANSFER_BYTES,
            incoming_bytes: INCOMING_BYTES,
            response_timeout_ns: RESPONSE_TIMEOUT_NS,
            tls: TlsPolicy::No,
        }
    }
}

impl TcpclSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "tcpcl",
        spec_kind: "tcpcl",
        aliases: &[],
        title: "TCPCLv4: sessions over TCP",
        reference: "RFC 9174",
        options: &[Opt::choice("tls", &["no", "require"], "TLS of sessions: none, or required")
            .default_word("no")
            .omitted()],
        draws: false,
        live_name: "",
    };
}

impl ClaFactory for TcpclSpec {
    fn build(&self, role: Role, node: &str, parameters: ConnectionParameters) -> Box<dyn Session> {
        Box::new(Tcpcl::new(self, role, node, parameters))
    }

    fn transport(&self) -> ClaTransport {
        ClaTransport::Tcp
    }

    fn adjust(&self, link: &LinkProperties) -> ClaSpec {
        let response_timeout_ns = self.response_timeout_ns.max(link.min_response_timeout_ns());
        TcpclSpec { response_timeout_ns, ..self.clone() }.into()
    }

    fn tls_policy(&self) -> TlsPolicy {
        self.tls
    }

    fn port(&self) -> Option<u16> {
        Some(PORT)
    }
}

/// A TCPCLv4 session.
pub struct Tcpcl(Rfc9174Session);

impl Tcpcl {
    /// Builds a session of node `node`.
    pub fn new(
        spec: &TcpclSpec,
        role: Role,
        node: &str,
        parameters: ConnectionParameters,
    ) -> Tcpcl {
        Tcpcl(Rfc9174Session::new(SessionConfig {
            format: WireFormat::Tcpcl,
            mapping: StreamMapping::Signal,
            role,
            init: SessInit {
                keepalive_s: spec.keepalive_s,
                segment_mru: spec.segment_bytes,
                datagram_mru: 0,
                transfer_mru: spec.transfer_bytes,
                node_id: node.to_owned(),
                extension_error: None,
            },
            segment_bytes: spec.segment_bytes,
            incoming_bytes: spec.incoming_bytes,
            response_timeout: Span(spec.response_timeout_ns),
            tls: spec.tls,
            parameters,
        }))
    }
}

impl Session for Tcpcl {
    fn on_event(
        &mut self,
        now: Time,
        event: AppEvent,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        self.0.on_event(now, event, streams, out);
    }

    fn on_command(
        &mut self,
        now: Time,
        command: SessionCommand,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        self.0.on_command(now, command, streams, out);
    }

    fn poll_at(&self) -> Time {
        self.0.poll_at()
    }

    fn has_data(&self) -> bool {
        self.0.has_data()
    }
}

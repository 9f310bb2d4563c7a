//! Convergence-layer adapters (CLAs), their options and their sessions.
//!
//! A CLA builds a [`Session`] from its options, the node ID and the [`Role`]. It states its transport: QUIC with
//! unidirectional streams and datagrams ([`transport::quic::QuicRequirements`]), TCP, or UDP.
//!
//! Reading order: `session` (boundary to the node), `session_app` (session as an application of a connection),
//! `messages` (wire formats), `parameters` (of sessions), `reassembly` (received bytes), `rfc9174` (the session of
//! TCPCLv4 and QUICCL), `tcpcl`, `quiccl`, `qubicle`, `mtcp`, `ltp` (over UDP), `link_properties` (timers and windows
//! from the contact plan).

mod link_properties;
pub mod ltp;
pub mod messages;
mod mtcp;
mod parameters;
mod qubicle;
mod quiccl;
mod reassembly;
mod rfc9174;
mod session;
mod session_app;
mod tcpcl;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::quic::QuicRequirements;

pub use link_properties::LinkProperties;
pub use ltp::{Colour, Ltp, LtpSpec};
pub use mtcp::{Mtcp, MtcpSpec};
pub use parameters::{ConnectionParameters, InitialNumbers, RememberedParameters, TlsPolicy};
pub use qubicle::{Qubicle, QubicleSpec, code as qubicle_code};
pub use quiccl::{Quiccl, QuicclSpec, StreamMappingSpec};
pub use reassembly::SharedByteQuota;
pub use session::{
    DeliveryMode, LinkState, RefusalReason, Role, Session, SessionCommand, SessionEvent, Transfer,
};
pub use session_app::{Mailbox, SessionApp};
pub use tcpcl::{Tcpcl, TcpclSpec};

/// A CLA and its options.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ClaSpec {
    /// draft-caini-dtn-quiccl-01.
    Quiccl(QuicclSpec),
    /// draft-ek-dtn-qubicle-02.
    Qubicle(QubicleSpec),
    /// RFC 9174.
    Tcpcl(TcpclSpec),
    /// draft-ietf-dtn-mtcpcl.
    Mtcp(MtcpSpec),
    /// RFC 5326 over UDP (RFC 7122).
    Ltp(LtpSpec),
}

/// The transport of a CLA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaTransport {
    /// QUIC, with the requirements of the CLA.
    Quic(QuicRequirements),
    /// TCP.
    Tcp,
    /// UDP, without connections.
    Udp,
}

impl ClaSpec {
    /// Builds a session of node `node`.
    pub fn build_session(&self, role: Role, node: &str) -> Box<dyn Session> {
        self.build_session_with(role, node, ConnectionParameters::default())
    }

    /// Builds a session with parameters of the connection from the driver.
    pub fn build_session_with(
        &self,
        role: Role,
        node: &str,
        parameters: ConnectionParameters,
    ) -> Box<dyn Session> {
        match self {
            ClaSpec::Quiccl(spec) => Box::new(Quiccl::new(spec, role, node, parameters)),
            ClaSpec::Qubicle(spec) => Box::new(Qubicle::new(spec, parameters)),
            ClaSpec::Tcpcl(spec) => Box::new(Tcpcl::new(spec, role, node, parameters)),
            ClaSpec::Mtcp(spec) => Box::new(Mtcp::new(spec, role, parameters)),
            ClaSpec::Ltp(spec) => Box::new(Ltp::new(spec, node, &parameters)),
        }
    }

    /// Builds a session for a connection with early data. Bundles use early data if the CLA supports it.
    pub fn build_session_with_early_data(
        &self,
        role: Role,
        node: &str,
        remembered: &RememberedParameters,
    ) -> Box<dyn Session> {
        match self {
            ClaSpec::Quiccl(spec) => Box::new(
                Quiccl::new(spec, role, node, ConnectionParameters::default())
                    .with_early_data(remembered),
            ),
            _ => self.build_session(role, node),
        }
    }

    /// Returns the transport.
    pub fn transport(&self) -> ClaTransport {
        match self {
            ClaSpec::Quiccl(spec) => ClaTransport::Quic(spec.quic_requirements()),
            ClaSpec::Qubicle(spec) => ClaTransport::Quic(spec.quic_requirements()),
            ClaSpec::Tcpcl(_) | ClaSpec::Mtcp(_) => ClaTransport::Tcp,
            ClaSpec::Ltp(_) => ClaTransport::Udp,
        }
    }

    /// Returns the TLS policy of sessions that start TLS.
    pub fn tls_policy(&self) -> TlsPolicy {
        match self {
            ClaSpec::Tcpcl(spec) => spec.tls,
            _ => TlsPolicy::No,
        }
    }

    /// Returns the requirements for QUIC; `None` for other transports.
    pub fn quic_requirements(&self) -> Option<QuicRequirements> {
        match self.transport() {
            ClaTransport::Quic(needs) => Some(needs),
            ClaTransport::Tcp | ClaTransport::Udp => None,
        }
    }

    /// Returns whether sessions need the planned link state ([`SessionCommand::LinkState`]).
    pub fn needs_link_state(&self) -> bool {
        matches!(self, ClaSpec::Ltp(_))
    }

    /// Returns the ALPN protocol name; `None` without QUIC.
    pub fn alpn(&self) -> Option<&'static str> {
        match self {
            ClaSpec::Quiccl(_) => Some(quiccl::ALPN),
            ClaSpec::Qubicle(_) => Some(qubicle::ALPN),
            ClaSpec::Tcpcl(_) | ClaSpec::Mtcp(_) | ClaSpec::Ltp(_) => None,
        }
    }

    /// Returns the default port; `None` if no port is assigned.
    pub fn port(&self) -> Option<u16> {
        match self {
            ClaSpec::Quiccl(_) => Some(quiccl::PORT),
            ClaSpec::Tcpcl(_) => Some(tcpcl::PORT),
            ClaSpec::Ltp(_) => Some(ltp::PORT),
            ClaSpec::Qubicle(_) | ClaSpec::Mtcp(_) => None,
        }
    }

    /// Returns whether one connection carries bundles in both directions.
    pub fn is_bidirectional(&self) -> bool {
        !matches!(self, ClaSpec::Mtcp(_))
    }

    /// Returns whether the first packet of a resumed connection can carry bundles.
    pub fn supports_early_data(&self) -> bool {
        matches!(self, ClaSpec::Quiccl(_))
    }
}

//! Convergence-layer adapters (CLAs), their options and their sessions.
//!
//! A CLA builds a [`Session`] from its options, the node ID and the [`Role`]. It states its transport: QUIC with
//! unidirectional streams and datagrams ([`transport::quic::QuicRequirements`]), TCP, or UDP.
//!
//! Reading order:
//! 1. `session` (boundary to the node), `session_app` (session as an application of a connection);
//! 2. `messages` (wire formats), `parameters` (of sessions), `reassembly` (received bytes);
//! 3. `rfc9174` (the session of TCPCLv4 and QUICCL), `tcpcl`, `quiccl`, `qubicle`, `mtcp`, `ltp` (over UDP);
//! 4. `link_properties` (timers and windows from the contact plan).

mod cla_factory;
mod cla_transport;
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

use transport::quic::QuicRequirements;
use units::kind;

pub use cla_transport::ClaTransport;
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

pub(crate) use cla_factory::ClaFactory;

kind! {
    /// A CLA and its options.
    ClaSpec, "kind", ClaFactory {
        Quiccl(QuicclSpec),
        Qubicle(QubicleSpec),
        Tcpcl(TcpclSpec),
        Mtcp(MtcpSpec),
        Ltp(LtpSpec),
    }
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
        self.factory().build(role, node, parameters)
    }

    /// Builds a session for a connection with early data. Bundles use early data if the CLA supports it.
    pub fn build_session_with_early_data(
        &self,
        role: Role,
        node: &str,
        remembered: &RememberedParameters,
    ) -> Box<dyn Session> {
        self.factory().build_with_early_data(role, node, remembered)
    }

    /// Returns the transport.
    pub fn transport(&self) -> ClaTransport {
        self.factory().transport()
    }

    /// Returns the TLS policy of sessions that start TLS.
    pub fn tls_policy(&self) -> TlsPolicy {
        self.factory().tls_policy()
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
        self.factory().needs_link_state()
    }

    /// Returns the ALPN protocol name; `None` without QUIC.
    pub fn alpn(&self) -> Option<&'static str> {
        self.factory().alpn()
    }

    /// Returns the default port; `None` if no port is assigned.
    pub fn port(&self) -> Option<u16> {
        self.factory().port()
    }

    /// Returns whether one connection carries bundles in both directions.
    pub fn is_bidirectional(&self) -> bool {
        self.factory().is_bidirectional()
    }

    /// Returns whether the first packet of a resumed connection can carry bundles.
    pub fn supports_early_data(&self) -> bool {
        self.factory().supports_early_data()
    }
}

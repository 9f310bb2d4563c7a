//! The boundary of the specification of a CLA.

use super::{
    ClaSpec, ClaTransport, ConnectionParameters, LinkProperties, RememberedParameters, TlsPolicy,
};
use crate::{Role, Session};

/// The specification of a CLA.
pub(crate) trait ClaFactory {
    /// Builds a session of node `node`.
    fn build(&self, role: Role, node: &str, parameters: ConnectionParameters) -> Box<dyn Session>;

    /// Builds a session for a connection with early data.
    fn build_with_early_data(
        &self,
        role: Role,
        node: &str,
        remembered: &RememberedParameters,
    ) -> Box<dyn Session> {
        let _ = remembered;
        self.build(role, node, ConnectionParameters::default())
    }

    /// Returns the transport.
    fn transport(&self) -> ClaTransport;

    /// Returns the specification with timers that exceed the planned delays.
    fn adjust(&self, link: &LinkProperties) -> ClaSpec;

    /// Returns the TLS policy of sessions that start TLS.
    fn tls_policy(&self) -> TlsPolicy {
        TlsPolicy::No
    }

    /// Returns whether sessions need the planned link state.
    fn needs_link_state(&self) -> bool {
        false
    }

    /// Returns the ALPN protocol name; `None` without QUIC.
    fn alpn(&self) -> Option<&'static str> {
        None
    }

    /// Returns the default port; `None` if no port is assigned.
    fn port(&self) -> Option<u16> {
        None
    }

    /// Returns whether one connection carries bundles in both directions.
    fn is_bidirectional(&self) -> bool {
        true
    }

    /// Returns whether the first packet of a resumed connection can carry bundles.
    fn supports_early_data(&self) -> bool {
        false
    }
}

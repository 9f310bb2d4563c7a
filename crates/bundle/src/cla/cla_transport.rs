//! The transport of a CLA.

use transport::quic::QuicRequirements;

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

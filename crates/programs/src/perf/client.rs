//! The measuring client, independent of the transport.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::AtomicBool;

use runtime::tls::{self, Fingerprint, PresentedCertificate, ServerVerification};

use super::{PerfClientPlan, PerfTransport, ServerVerificationPlan, quic_client, tcp};
use crate::ProgramError;

/// A part of the alert names for a failed verification (RFC 8446 section 6.2); QUIC adds 0x100.
const UNTRUSTED: &str = "certificate";

/// A client, ready to connect.
pub enum MeasuringClient {
    /// QUIC.
    Quic(Box<quic_client::QuicMeasuringClient>),
    /// TCP, with or without TLS.
    Tcp(Box<tcp::TcpMeasuringClient>),
}

impl MeasuringClient {
    /// Resolves the server's address and prepares the transport.
    ///
    /// # Errors
    /// The defect of the plan.
    pub fn start(plan: PerfClientPlan) -> Result<MeasuringClient, ProgramError> {
        match plan.transport {
            PerfTransport::Quic => {
                Ok(MeasuringClient::Quic(Box::new(quic_client::QuicMeasuringClient::start(plan)?)))
            }
            PerfTransport::Tcp | PerfTransport::Tls => {
                Ok(MeasuringClient::Tcp(Box::new(tcp::TcpMeasuringClient::start(plan)?)))
            }
            PerfTransport::All => Err(ProgramError::Input(
                "--transport: a client speaks one: quic, tcp or tls".to_owned(),
            )),
        }
    }

    /// Runs the load. Returns whether it was stopped before its end.
    ///
    /// # Errors
    /// The reason why the result is missing or incomplete.
    pub fn run(self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, ProgramError> {
        match self {
            MeasuringClient::Quic(client) => client.run(stop, screen),
            MeasuringClient::Tcp(client) => client.run(stop, screen),
        }
    }
}

/// Resolves the address of a host.
pub(crate) fn resolve_host(host: &str, port: u16) -> Result<SocketAddr, ProgramError> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let found = (plain, port).to_socket_addrs();
    found
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| ProgramError::Input(format!("HOST: no address is known for \"{host}\"")))
}

/// Selects the certificates that a client accepts.
pub(super) fn server_verification(
    plan: &PerfClientPlan,
    remote: SocketAddr,
) -> Result<(ServerVerification, Option<Fingerprint>), ProgramError> {
    match &plan.server_verification {
        ServerVerificationPlan::Insecure => Ok((ServerVerification::AcceptAny, None)),
        ServerVerificationPlan::Private if tls::is_private_address(remote.ip()) => {
            Ok((ServerVerification::AcceptAny, None))
        }
        ServerVerificationPlan::Private => Err(ProgramError::Input(format!(
            "{} is no private address: give --fingerprint with what the server prints, or --insecure",
            remote.ip()
        ))),
        ServerVerificationPlan::Fingerprint(text) => {
            let wanted = Fingerprint::parse(text).map_err(ProgramError::Input)?;
            Ok((ServerVerification::Pinned(wanted), Some(wanted)))
        }
    }
}

/// Describes the verification of the server's certificate.
pub(super) fn describe_certificate(
    plan: &ServerVerificationPlan,
    shown: &PresentedCertificate,
) -> String {
    match (plan, shown.fingerprint()) {
        (ServerVerificationPlan::Fingerprint(_), _) => "certificate as pinned".to_owned(),
        (_, Some(found)) => format!("certificate not verified, fingerprint {found}"),
        (_, None) => "no certificate".to_owned(),
    }
}

/// Returns the error of a handshake with another certificate than the pinned one.
pub(super) fn pin_mismatch(
    remote: SocketAddr,
    pinned: Option<Fingerprint>,
    shown: &PresentedCertificate,
) -> Option<ProgramError> {
    match (pinned, shown.fingerprint()) {
        (Some(wanted), Some(found)) if wanted != found => Some(ProgramError::Run(format!(
            "{remote}: the server's {UNTRUSTED} is another one: fingerprint {found}, expected {wanted}"
        ))),
        _ => None,
    }
}

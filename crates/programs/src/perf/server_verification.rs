//! The certificates that a measuring client accepts.

use std::net::SocketAddr;

use runtime::tls::{self, Fingerprint, PresentedCertificate, ServerVerification};

use super::{PerfClientPlan, ServerVerificationPlan};
use crate::ProgramError;

/// A part of the alert names for a failed verification (RFC 8446 section 6.2); QUIC adds 0x100.
const UNTRUSTED: &str = "certificate";

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
            "HOST: found {}, expected a loopback or private address; for other addresses use --fingerprint with the fingerprint that the server prints, or --insecure",
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
        (ServerVerificationPlan::Fingerprint(_), _) => {
            "certificate matches the pinned fingerprint".to_owned()
        }
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
            "{remote}: the server's {UNTRUSTED} does not match: fingerprint {found}, expected {wanted}"
        ))),
        _ => None,
    }
}

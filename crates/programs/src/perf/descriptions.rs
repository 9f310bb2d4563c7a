//! Connections in the words of lines and summaries.

use runtime::host::ConnectionReport;
use transport::quic::CloseReason;

/// Describes the transport and the application protocol of a connection; QUIC by the latter alone.
pub(super) fn describe_protocol(report: &ConnectionReport<'_>) -> String {
    match (report.transport, &report.alpn) {
        ("quic", alpn) => format!("ALPN {}", alpn.as_deref().unwrap_or_default()),
        (_, Some(alpn)) => format!("TLS, ALPN {alpn}"),
        (transport, None) => transport.to_uppercase(),
    }
}

/// Describes the close of a connection, `None` after an interruption.
pub(super) fn describe_close(end: Option<&CloseReason>) -> &str {
    match end {
        None => "interrupted",
        Some(CloseReason::Local | CloseReason::Peer) => "closed",
        Some(CloseReason::Lost(why)) => why,
    }
}

/// Returns the reason of a close with a name of the peer.
pub(super) fn name_peer(reason: &CloseReason, name: &str) -> CloseReason {
    match reason {
        CloseReason::Lost(why) => CloseReason::Lost(match why.strip_prefix("the peer ") {
            Some(rest) => format!("the {name} {rest}"),
            None => why.clone(),
        }),
        reason => reason.clone(),
    }
}

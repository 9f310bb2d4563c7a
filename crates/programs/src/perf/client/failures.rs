//! The errors of a measuring client.

use std::io;

use runtime::host::ConnectionReport;
use transport::StreamSpec;
use transport::perf_load::{AmountSpec, ControllerResponse, StreamReport};
use transport::quic::CloseReason;
use units::{Span, Time};

use super::super::server_verification::pin_mismatch;
use super::MeasuringClient;
use crate::ProgramError;

/// The maximum of polls after a closed port before the error is final.
const MAX_REFUSED_POLLS: usize = 8;

impl MeasuringClient {
    /// Polls the host and converts its errors.
    pub(super) fn poll_host(&mut self, until: Time, connected: bool) -> Result<(), ProgramError> {
        let remote = self.remote;
        let mut done = self.host.poll_once(until);
        if !self.is_quic() {
            return Ok(done?);
        }
        // Data that the server sent before its end can still be unread: the socket reports errors first, one per
        // datagram sent since.
        for _ in 0..MAX_REFUSED_POLLS {
            if !connected || !done.as_ref().is_err_and(is_refused) {
                break;
            }
            let again = self.host.poll_once(until);
            if self.host.connections().is_empty() {
                done = Ok(());
            } else if again.is_err() {
                done = again;
            }
        }
        done.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused if connected => ProgramError::Run(format!(
                "{remote}: the server has ended (its UDP port is closed)"
            )),
            io::ErrorKind::ConnectionRefused => ProgramError::Run(format!(
                "{remote}: connection refused (UDP port closed); is `bentpipe perf server` running?"
            )),
            _ => ProgramError::Run(format!("{remote} cannot be reached: {error}")),
        })?;
        match self.host.too_large(0) {
            Some(size) => Err(ProgramError::Input(format!(
                "--mtu: the path to {remote} does not carry UDP payloads of {size} bytes; use a smaller --mtu"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the error of a server that did not answer in time.
    pub(super) fn timeout_error(&self, question: &str) -> ProgramError {
        let (remote, seconds) = (self.remote, Span(self.plan.timeout_ns).seconds());
        ProgramError::Run(format!("{remote}: no answer within {seconds} s; {question}"))
    }

    /// Converts a failed handshake to an error.
    pub(super) fn handshake_error(&self, lost: Option<&CloseReason>) -> ProgramError {
        let Some(reason @ CloseReason::Lost(_)) = lost else {
            let closed = if self.is_quic() { " closed the connection" } else { ": closed" };
            return ProgramError::Run(format!("{}{closed} at once", self.remote));
        };
        pin_mismatch(self.remote, self.pinned, &self.presented)
            .unwrap_or_else(|| ProgramError::Run(self.describe_failure(reason)))
    }

    /// Describes the loss of a connection.
    pub(super) fn describe_failure(&self, reason: &CloseReason) -> String {
        let (remote, alpn) = (self.remote, &self.plan.alpn);
        let CloseReason::Lost(why) = reason else {
            return format!("{remote} closed the connection before the end of the load");
        };
        let idle = if self.is_quic() {
            self.plan.quic.idle_timeout_ns.map_or(0.0, |nanos| nanos as f64 / 1e9)
        } else {
            Span(self.plan.tcp.idle_timeout_ns).seconds()
        };
        match &**why {
            "timed out" => {
                let what = if self.is_quic() { "a packet" } else { "progress" };
                format!("{remote}: the connection is lost: {idle} s without {what}")
            }
            "reset by peer" if self.is_quic() => format!("{remote}: the server has restarted"),
            _ if self.is_quic() && why.contains("refused") => {
                format!("{remote}: the server is at its connection limit ({why})")
            }
            "refused" => format!(
                "{remote}: connection refused (TCP port closed); is `bentpipe perf server` running?"
            ),
            // no_application_protocol (RFC 7301 section 3.2), as QUIC and as rustls write it.
            _ if why.contains(if self.is_quic() {
                "error 120"
            } else {
                "NoApplicationProtocol"
            }) =>
            {
                format!("{remote}: the server does not support ALPN {alpn}")
            }
            _ if !self.is_quic() && why.contains("reset") => {
                format!("{remote}: {why}; the server may be at its connection limit, or has ended")
            }
            _ => format!("{remote}: {why}"),
        }
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Returns the response of a server that refused the controller request.
pub(super) fn refused_response<'a>(
    report: &'a ConnectionReport<'_>,
) -> Option<&'a ControllerResponse> {
    report.peer_controller.as_deref().filter(|answer| answer.refusal_reason.is_some())
}

/// Describes missing parts of a response: TCP closes a complete and an incomplete one alike.
pub(super) fn describe_shortfall(
    requested: &StreamSpec,
    streams: &[StreamReport],
) -> Option<String> {
    let stream = streams.first()?;
    let came = stream.received_in_order;
    match requested.amount {
        AmountSpec::Data { down_bytes, .. } if came != down_bytes => {
            Some(format!("the server sent {came} bytes, expected {down_bytes}"))
        }
        _ if stream.finished.is_none() => {
            Some("the server ended the stream before the upload was complete".to_owned())
        }
        _ => None,
    }
}

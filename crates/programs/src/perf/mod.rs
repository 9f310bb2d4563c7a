//! `bentpipe perf`: the perf protocol between two machines, measured while it runs.
//!
//! Reading order: `plan`; `client` and `server` (connection managers on a host), `tcp_options`, `server_verification`;
//! `report` (lines), `frames` (for programs), `summary`.

mod client;
mod frames;
mod plan;
mod qlog;
mod report;
mod server;
mod server_verification;
mod summary;
pub(crate) mod tcp_options;

pub use client::MeasuringClient;
pub(crate) use client::resolve_host;
pub use plan::{
    CertificateFiles, CongestionPlan, ControllerPolicy, CsvPlan, FramesPlan, PerfClientPlan,
    PerfPlan, PerfServerLimits, PerfServerPlan, PerfTcpPlan, PerfTransport, ReportPlan,
    ServerVerificationPlan,
};
pub use report::Reporter;
pub use runtime::SenderReport;
pub use server::MeasuringServer;
pub use summary::PerfSummary;

use std::io::Write;
use std::sync::atomic::AtomicBool;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use runtime::host::ConnectionReport;
use transport::quic::CloseReason;

use crate::ProgramError;
use crate::media::{Callee, run_caller};

/// Runs a plan until it is complete or `stop` is set; results go to `screen`. Returns whether it was stopped.
///
/// # Errors
/// A message for the user.
pub fn run(
    plan: PerfPlan,
    stop: &AtomicBool,
    screen: Box<dyn Write>,
) -> Result<bool, ProgramError> {
    // TCP needs a file descriptor per stream. If the limit cannot be raised, it stays unchanged.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    match plan {
        PerfPlan::Server(plan) => MeasuringServer::bind(plan)?.run(stop, screen),
        PerfPlan::Client(plan) => MeasuringClient::start(plan)?.run(stop, screen),
        PerfPlan::Callee(plan) => Callee::bind(plan)?.run(stop, screen),
        PerfPlan::Caller(plan) => run_caller(&plan, stop, screen),
    }
}

/// Describes the transport and the application protocol of a connection; QUIC by the latter alone.
fn describe_protocol(report: &ConnectionReport<'_>) -> String {
    match (report.transport, &report.alpn) {
        ("quic", alpn) => format!("ALPN {}", alpn.as_deref().unwrap_or_default()),
        (_, Some(alpn)) => format!("TLS, ALPN {alpn}"),
        (transport, None) => transport.to_uppercase(),
    }
}

/// Describes the close of a connection, `None` after an interruption.
fn describe_close(end: Option<&CloseReason>) -> &str {
    match end {
        None => "interrupted",
        Some(CloseReason::Local | CloseReason::Peer) => "closed",
        Some(CloseReason::Lost(why)) => why,
    }
}

/// Returns the reason of a close with a name of the peer.
fn name_peer(reason: &CloseReason, name: &str) -> CloseReason {
    match reason {
        CloseReason::Lost(why) => CloseReason::Lost(match why.strip_prefix("the peer ") {
            Some(rest) => format!("the {name} {rest}"),
            None => why.clone(),
        }),
        reason => reason.clone(),
    }
}

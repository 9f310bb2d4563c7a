//! `bentpipe perf`: the perf protocol between two machines, measured while it runs.
//!
//! Reading order: `plan`; `peer`, `tcp_options`, `server_verification`; `client` and `server` (connection managers on a
//! host); `report` (lines), `frames` (for programs), `summary`, `descriptions`.

mod client;
mod descriptions;
mod frames;
mod peer;
mod plan;
mod qlog;
mod report;
mod server;
mod server_verification;
mod summary;
pub(crate) mod tcp_options;

pub use client::MeasuringClient;
pub(crate) use peer::resolve_host;
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
    if let Ok((_, hard_limit)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard_limit, hard_limit);
    }
    match plan {
        PerfPlan::Server(plan) => MeasuringServer::bind(plan)?.run(stop, screen),
        PerfPlan::Client(plan) => MeasuringClient::start(plan)?.run(stop, screen),
        PerfPlan::Callee(plan) => Callee::bind(plan)?.run(stop, screen),
        PerfPlan::Caller(plan) => run_caller(&plan, stop, screen),
    }
}
